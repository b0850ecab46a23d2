//! A session of libiscsi with one connection, as a safe type.
//!
//! The library calls back while it is called, so callbacks only note what has happened, behind raw pointers; what follows from
//! it is done after the call. From [`Session::send`] until the answer is taken the memory of a command may be in use. The
//! library goes on sending the data of a command that a target answers early, out of memory that it believes to be there
//! (1.19, `iscsi_write_to_socket`), so an answer is held back while anything waits to be sent.

#![allow(unsafe_code)]

use super::library::{Callback, Context, Discovered, Library, Task, direction, status};
use super::terms::Terms;
use crate::buffers::Buffers;
use platter_block::command::Transfer;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

mod aborts;

const POLLIN: c_int = libc::POLLIN as c_int;
const POLLOUT: c_int = libc::POLLOUT as c_int;

/// A target that a portal has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Addresses at which it can be reached: HOST:PORT,GROUP.
    pub portals: Vec<String>,
}

/// The answer to a command.
#[derive(Debug)]
pub(super) struct Answer {
    /// The caller's number of the command.
    pub(super) token: u32,
    /// The status, of the target or of the library.
    pub(super) status: c_int,
    /// Bytes that were not transferred of those that were expected.
    pub(super) missing: u64,
    /// The command was ended at the request of this side.
    pub(super) is_aborted: bool,
    /// Sense data, with CHECK CONDITION.
    pub(super) sense: Vec<u8>,
    pub(super) buffers: Buffers,
}

/// What callbacks note.
#[derive(Default)]
struct Inbox {
    answered: Vec<NonNull<Command>>,
    /// The status of connecting, of the login, of the logout or of a discovery.
    stage: Option<c_int>,
    targets: Vec<Target>,
    /// Aborts that were answered.
    aborted: Vec<Ended>,
    is_lost: bool,
}

/// A command with the library.
struct Command {
    inbox: *mut Inbox,
    token: u32,
    /// Which one it is of the commands that the library was given, from 0.
    number: u64,
    task: *mut Task,
    status: c_int,
    /// The library has it and has not answered.
    is_awaited: bool,
    /// Its end was asked for: its cancellation is not a loss of the connection.
    is_cancelled: bool,
    buffers: Buffers,
}

/// An abort with the library, which keeps its address until the abort is answered, also if the command ends before.
struct Abort {
    inbox: *mut Inbox,
    /// The initiator task tag of the command.
    tag: u32,
}

/// An abort that was answered.
struct Ended {
    abort: NonNull<Abort>,
    /// The target works on the command no more.
    is_done: bool,
}

/// A session. It uses no memory of commands any more when it is dropped.
pub(super) struct Session {
    library: &'static Library,
    context: NonNull<Context>,
    inbox: *mut Inbox,
    unit: c_int,
    commands: Vec<NonNull<Command>>,
    free: Vec<NonNull<Command>>,
    /// Commands that the library was given.
    given: u64,
    /// The numbers of commands that are aborted once they are sent.
    due: Vec<u64>,
    aborts: Vec<NonNull<Abort>>,
    /// Commands that were answered, and whose answers wait until everything is sent.
    held: Vec<NonNull<Command>>,
}

// SAFETY: the library keeps everything of a context in it, and the pointers are used by the owner only.
unsafe impl Send for Session {}

/// Whether a signal does not have its default action.
pub(super) fn signal_is_handled(signal: c_int) -> bool {
    // SAFETY: all zeroes is a valid action, which the call fills in; it changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction != libc::SIG_DFL
    }
}

fn text(of: *const c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: a string of the library, which ends with a zero byte and stays unchanged during this call.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}

/// The callback of a command.
unsafe extern "C" fn answered(_: *mut Context, status: c_int, _: *mut c_void, private: *mut c_void) {
    let command = private.cast::<Command>();
    // SAFETY: the private pointer is the command's, which lives as long as the session, and so does the inbox. No reference to
    // either exists while the library is called.
    unsafe {
        // Cancelling a command calls back for each of its units.
        if !(*command).is_awaited {
            return;
        }
        (*command).is_awaited = false;
        (*command).status = status;
        let inbox = &mut *(*command).inbox;
        inbox.answered.push(NonNull::new_unchecked(command));
        let is_ended = status == status::CANCELLED && !(*command).is_cancelled;
        inbox.is_lost |= is_ended || status == status::ERROR;
    }
}

/// The callback of connecting, login and logout.
unsafe extern "C" fn staged(_: *mut Context, status: c_int, _: *mut c_void, private: *mut c_void) {
    // SAFETY: the private pointer is that of the inbox, as in `answered`.
    unsafe { (*private.cast::<Inbox>()).stage = Some(status) };
}

/// The callback of a discovery.
unsafe extern "C" fn discovered(_: *mut Context, status: c_int, data: *mut c_void, private: *mut c_void) {
    let mut found = Vec::new();
    if status == status::GOOD {
        let mut next = data.cast::<Discovered>();
        // SAFETY: with the status GOOD the data is a list of targets, each with a list of portals, that ends with null.
        while let Some(target) = unsafe { next.as_ref() } {
            let mut portals = Vec::new();
            let mut at = target.portals;
            // SAFETY: as above.
            while let Some(portal) = unsafe { at.as_ref() } {
                portals.push(text(portal.address));
                at = portal.next;
            }
            found.push(Target { name: text(target.name), portals });
            next = target.next;
        }
    }
    // SAFETY: as in `staged`.
    unsafe {
        (*private.cast::<Inbox>()).stage = Some(status);
        (*private.cast::<Inbox>()).targets = found;
    }
}

/// What the library puts into the first two bytes of the field for the logical unit: below 256 a number as most targets have it
/// (peripheral device addressing), from there on by flat space addressing (SAM-5, 4.7.7).
fn field(lun: u16) -> c_int {
    const FLAT: c_int = 0x4000;
    let number = c_int::from(lun);
    if lun < 256 { number } else { number | FLAT }
}

impl Session {
    /// A session that is not connected.
    ///
    /// # Errors
    /// The library has no memory, or does not take one of the terms: a sentence.
    pub(super) fn new(library: &'static Library, terms: &Terms) -> Result<Session, String> {
        let word = |value: &str, what: &str| {
            CString::new(value).map_err(|_| format!("{what} has a zero byte; give it without"))
        };
        let initiator = word(&terms.initiator, "the name of the initiator")?;
        // SAFETY: a string that ends with a zero byte, which the library copies.
        let context = unsafe { (library.create_context)(initiator.as_ptr()) };
        let Some(context) = NonNull::new(context) else {
            return Err("libiscsi has no memory for a session".to_owned());
        };
        let inbox = Box::into_raw(Box::default());
        let session = Session {
            library,
            context,
            inbox,
            unit: field(terms.lun),
            commands: Vec::new(),
            free: Vec::new(),
            given: 0,
            due: Vec::new(),
            aborts: Vec::new(),
            held: Vec::new(),
        };
        let context = context.as_ptr();
        let probe = c_int::try_from(terms.peer_timeout.as_secs() / 4).unwrap_or(c_int::MAX).max(1);
        let silence = c_int::try_from(terms.peer_timeout.as_millis()).unwrap_or(c_int::MAX);
        let normal = terms.target.is_some();
        let target = word(terms.target.as_deref().unwrap_or_default(), "the name of the target")?;
        // SAFETY: the context is alive, and strings end with a zero byte and are copied.
        let taken = unsafe {
            (library.set_no_reconnect)(context, 1);
            (library.set_user_timeout)(context, silence);
            (library.set_keep_idle)(context, probe);
            (library.set_keep_count)(context, 3);
            (library.set_keep_interval)(context, probe);
            (library.set_session_type)(context, if normal { 2 } else { 1 }) == 0
                && (library.set_isid)(context, terms.port.0, u32::from(terms.port.1)) == 0
                && (!normal || (library.set_target)(context, target.as_ptr()) == 0)
                && (library.set_header_digest)(context, terms.digest.number()) == 0
        };
        if !taken {
            return Err(session.error());
        }
        for (account, set) in [(&terms.user, library.set_user), (&terms.target_user, library.set_target_user)]
        {
            let Some((name, secret)) = account else { continue };
            let (name, secret) = (word(name, "the name of a user")?, word(secret, "a secret")?);
            // SAFETY: as above.
            if unsafe { set(context, name.as_ptr(), secret.as_ptr()) } != 0 {
                return Err(session.error());
            }
        }
        Ok(session)
    }

    /// The library's last error.
    pub(super) fn error(&self) -> String {
        // SAFETY: the context is alive.
        text(unsafe { (self.library.error)(self.context.as_ptr()) }).replace('\n', " ")
    }

    /// Why the connection was lost. The library tells nothing of a target that closes it, and keeps older texts.
    pub(super) fn loss(&self) -> String {
        let told = self.error();
        let told = told.split("SENSE KEY").next().unwrap_or_default().trim();
        let is_of_connection = ["Error when", "read from", "iscsi_service", "Invalid data", "Request was"];
        match is_of_connection.iter().any(|begin| told.starts_with(begin)) {
            true => told.to_owned(),
            false => "the target has closed the connection".to_owned(),
        }
    }

    /// Where the target has redirected the login to.
    pub(super) fn redirected_to(&self) -> String {
        // SAFETY: the context is alive.
        text(unsafe { (self.library.target_address)(self.context.as_ptr()) })
    }

    /// Begins to connect to an address, HOST:PORT with a numeric host: names would block.
    pub(super) fn connect(&mut self, portal: &str) -> bool {
        let Ok(portal) = CString::new(portal) else { return false };
        let (connect, inbox) = (self.library.connect, self.inbox.cast());
        // SAFETY: the context is alive, the string is copied, and the inbox lives as long as the context.
        unsafe { connect(self.context.as_ptr(), portal.as_ptr(), staged, inbox) == 0 }
    }

    /// Begins to log in.
    pub(super) fn log_in(&mut self) -> bool {
        self.stage(self.library.login, staged)
    }

    /// Begins to log out.
    pub(super) fn log_out(&mut self) -> bool {
        self.stage(self.library.logout, staged)
    }

    /// Begins to ask for the targets of a portal.
    pub(super) fn discover(&mut self) -> bool {
        self.stage(self.library.discover, discovered)
    }

    fn stage(
        &mut self,
        begin: unsafe extern "C" fn(*mut Context, Callback, *mut c_void) -> c_int,
        callback: Callback,
    ) -> bool {
        // SAFETY: the context is alive, and the inbox lives as long.
        unsafe { begin(self.context.as_ptr(), callback, self.inbox.cast()) == 0 }
    }

    /// Whether what was begun last has ended: `true` with success.
    pub(super) fn staged(&mut self) -> Option<c_int> {
        // SAFETY: the library is not being called, so nothing else refers to the inbox.
        unsafe { (*self.inbox).stage.take() }
    }

    /// The targets that a discovery has found.
    pub(super) fn targets(&mut self) -> Vec<Target> {
        // SAFETY: as in `staged`.
        unsafe { std::mem::take(&mut (*self.inbox).targets) }
    }

    /// Waits until the connection has something to do, or the time has passed.
    pub(super) fn wait(&self, timeout: Duration) {
        self.poll(timeout);
    }

    /// Whether the target has closed the connection, as far as it is known now.
    pub(super) fn is_hung_up(&self) -> bool {
        let Some(descriptor) = self.descriptor() else { return true };
        let mut entry = libc::pollfd { fd: descriptor, events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one entry, exclusively borrowed.
        unsafe { libc::poll(&raw mut entry, 1, 0) != 0 }
    }

    /// Calls a function with the descriptor of the connection.
    pub(super) fn with_descriptor(&self, then: impl FnOnce(BorrowedFd<'_>)) {
        if let Some(descriptor) = self.descriptor() {
            // SAFETY: the library has it open, and is not called meanwhile.
            then(unsafe { BorrowedFd::borrow_raw(descriptor) });
        }
    }

    /// Another descriptor of the connection, which stays open when the library closes its own. `None`: there is no connection,
    /// or no room for a descriptor.
    pub(super) fn duplicate(&self) -> Option<OwnedFd> {
        let mut copy = None;
        self.with_descriptor(|descriptor| copy = descriptor.try_clone_to_owned().ok());
        copy
    }

    /// Commands and other units that were given to the library and that it has not begun to send.
    pub(super) fn unsent(&self) -> usize {
        // SAFETY: the context is alive.
        let unsent = unsafe { (self.library.unsent)(self.context.as_ptr()) };
        usize::try_from(unsent).unwrap_or(0)
    }

    /// The descriptor of the connection.
    fn descriptor(&self) -> Option<c_int> {
        // SAFETY: the context is alive.
        let descriptor = unsafe { (self.library.descriptor)(self.context.as_ptr()) };
        (descriptor >= 0).then_some(descriptor)
    }

    /// Whether it waits for room to send.
    pub(super) fn wants_output(&self) -> bool {
        // SAFETY: the context is alive.
        unsafe { (self.library.events)(self.context.as_ptr()) & POLLOUT != 0 }
    }

    /// Whether everything that was given to the library is with the system.
    pub(super) fn is_sent(&self) -> bool {
        !self.wants_output() && self.unsent() == 0
    }

    /// Sends and receives what is possible. `false`: the connection is lost.
    pub(super) fn service(&mut self, input: bool, output: bool) -> bool {
        let events = if input { POLLIN } else { 0 } | if output { POLLOUT } else { 0 };
        self.service_events(events)
    }

    /// Waits until the connection has something to do, or the time has passed; then does it. `false`: the connection is lost.
    pub(super) fn service_after(&mut self, timeout: Duration) -> bool {
        match self.poll(timeout) {
            None => false,
            // Time has passed, or a signal came: the caller looks at its clock.
            Some(0) => true,
            Some(events) => self.service_events(events),
        }
    }

    /// What the connection can do now; 0: nothing. `None`: there is none.
    fn poll(&self, timeout: Duration) -> Option<c_int> {
        let descriptor = self.descriptor()?;
        // SAFETY: the context is alive.
        let events = unsafe { (self.library.events)(self.context.as_ptr()) } as i16;
        let mut entry = libc::pollfd { fd: descriptor, events, revents: 0 };
        let timeout = c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(-1);
        // SAFETY: one entry, exclusively borrowed.
        match unsafe { libc::poll(&raw mut entry, 1, timeout) } {
            1 => Some(c_int::from(entry.revents)),
            _ => Some(0),
        }
    }

    fn service_events(&mut self, events: c_int) -> bool {
        let mut works = self.serve(events);
        // That may have sent commands that are to be aborted.
        while works && self.make_aborts() {
            works = self.serve(POLLOUT);
        }
        works
    }

    /// Lets the library do what the connection can do now. `false`: the connection is lost.
    fn serve(&mut self, events: c_int) -> bool {
        // SAFETY: the context is alive, and no reference to what callbacks use exists.
        let result = unsafe { (self.library.service)(self.context.as_ptr(), events) };
        // SAFETY: as in `staged`.
        result == 0 && !unsafe { (*self.inbox).is_lost }
    }

    /// Sends a command with the caller's token. Its data goes from or to `buffers`, as `way` says.
    ///
    /// # Errors
    /// The connection is not in use any more; the memory comes back.
    pub(super) fn send(
        &mut self,
        token: u32,
        cdb: &[u8],
        way: Transfer,
        buffers: Buffers,
    ) -> Result<(), Buffers> {
        let command = self.command(token, buffers);
        let (library, context) = (self.library, self.context.as_ptr());
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        // SAFETY: the command is not in use by the library, which copies the bytes of the CDB. The list of memory is in the
        // command, which stays where it is until the task is freed; what it lists may be used until then.
        unsafe {
            let buffers = &mut (*command.as_ptr()).buffers;
            let (length, (list, count)) = (buffers.bytes() as c_int, buffers.list());
            let way = match way {
                Transfer::FromDevice => direction::READ,
                Transfer::ToDevice => direction::WRITE,
                Transfer::None => direction::NONE,
            };
            let task = (library.create_task)(cdb.len() as c_int, bytes.as_mut_ptr(), way, length);
            if !task.is_null() {
                match way {
                    direction::READ => (library.set_memory_in)(task, list, count as c_int),
                    direction::WRITE => (library.set_memory_out)(task, list, count as c_int),
                    _ => {}
                }
                (*command.as_ptr()).task = task;
                (*command.as_ptr()).is_awaited = true;
                let private = command.as_ptr().cast();
                let data = std::ptr::null_mut();
                if (library.command)(context, self.unit, task, answered, data, private) == 0 {
                    self.given += 1;
                    return Ok(());
                }
                (*command.as_ptr()).is_awaited = false;
            }
        }
        Err(self.put(command).buffers)
    }

    /// Appends the answers that have come and whose memory is free.
    pub(super) fn take_answers(&mut self, out: &mut Vec<Answer>) {
        let is_sent = self.is_sent();
        if is_sent {
            self.end_aborted();
        }
        // SAFETY: as in `staged`.
        let answered = unsafe { std::mem::take(&mut (*self.inbox).answered) };
        self.held.extend(&answered);
        // The list keeps its memory.
        // SAFETY: as in `staged`.
        unsafe {
            (*self.inbox).answered = answered;
            (*self.inbox).answered.clear();
        }
        if is_sent {
            let mut held = std::mem::take(&mut self.held);
            out.extend(held.drain(..).map(|command| self.put(command)));
            self.held = held;
        }
    }

    /// A command that the library does not have.
    fn command(&mut self, token: u32, buffers: Buffers) -> NonNull<Command> {
        let command = self.free.pop().unwrap_or_else(|| {
            let command = Command {
                inbox: self.inbox,
                token: 0,
                number: 0,
                task: std::ptr::null_mut(),
                status: 0,
                is_awaited: false,
                is_cancelled: false,
                buffers: Buffers::default(),
            };
            let command = NonNull::from(Box::leak(Box::new(command)));
            self.commands.push(command);
            command
        });
        // SAFETY: it is not with the library, and nothing else refers to it.
        let it = unsafe { &mut *command.as_ptr() };
        (it.token, it.number, it.buffers, it.is_cancelled) = (token, self.given, buffers, false);
        command
    }

    /// Frees a command that the library is done with, and returns its answer.
    fn put(&mut self, command: NonNull<Command>) -> Answer {
        self.free.push(command);
        // SAFETY: the library does not have the command any more, nor units that send its data.
        let command = unsafe { &mut *command.as_ptr() };
        let (token, status) = (command.token, command.status);
        let mut answer = Answer {
            token,
            status,
            missing: 0,
            is_aborted: command.is_cancelled,
            sense: Vec::new(),
            buffers: std::mem::take(&mut command.buffers),
        };
        let task = std::mem::replace(&mut command.task, std::ptr::null_mut());
        // SAFETY: the task is null or alive; its data has the length that it tells.
        unsafe {
            if let Some(task) = task.as_ref() {
                let size = usize::try_from(task.data_size).unwrap_or(0);
                if status == status::CHECK_CONDITION && !task.data.is_null() && size > 2 {
                    let bytes = std::slice::from_raw_parts(task.data, size);
                    let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
                    answer.sense = bytes[2..size.min(2 + length)].to_vec();
                }
                if task.residual_status == 1 {
                    answer.missing = task.residual as u64;
                }
            }
            if !task.is_null() {
                (self.library.free_task)(task);
            }
        }
        answer
    }

    /// Ends the connection, without a farewell. Returns the answers to all commands: those that had come, and
    /// `CANCELLED` for the others.
    pub(super) fn end(mut self) -> Vec<Answer> {
        self.destroy();
        // SAFETY: commands live as long as the session, and the library is not being called.
        let has_task = |command: &&NonNull<Command>| unsafe { !command.as_ref().task.is_null() };
        let all: Vec<_> = self.commands.iter().filter(has_task).copied().collect();
        all.into_iter().map(|command| self.put(command)).collect()
    }

    /// Destroys the context; the library calls back for what it has.
    fn destroy(&mut self) {
        // SAFETY: the context is alive, and is not used afterwards: the only callers consume the session. Commands and inbox
        // live on.
        unsafe { (self.library.destroy_context)(self.context.as_ptr()) };
        self.context = NonNull::dangling();
        for command in &self.commands {
            // SAFETY: the library is not being called, and has nothing any more.
            let command = unsafe { &mut *command.as_ptr() };
            if std::mem::take(&mut command.is_awaited) {
                command.status = status::CANCELLED;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.context != NonNull::dangling() {
            self.destroy();
        }
        for command in std::mem::take(&mut self.commands) {
            // SAFETY: made by `Box::leak`, and the library has no pointer to it any more.
            let command = unsafe { Box::from_raw(command.as_ptr()) };
            if !command.task.is_null() {
                // SAFETY: the task was not freed: `put` leaves null.
                unsafe { (self.library.free_task)(command.task) };
            }
        }
        for abort in std::mem::take(&mut self.aborts) {
            // SAFETY: made by `Box::leak`, and still in the list, so not dropped. The library does not have it.
            drop(unsafe { Box::from_raw(abort.as_ptr()) });
        }
        // SAFETY: made by `Box::into_raw`; nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.inbox) });
    }
}
