//! Connecting, logging in and asking the logical unit about itself, without blocking.

use super::error::IscsiError;
use super::library::{Library, library, status};
use super::session::{Answer, Session};
use super::terms::Terms;
use crate::buffers::Buffers;
use platter_block::command::Transfer;
use platter_scsi::host::found::{Found, Inquirer, Refused};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How often a login may be sent on to another address.
const REDIRECTIONS: u8 = 4;
/// Pause before a unit that is not ready is asked again.
const PAUSE: Duration = Duration::from_millis(100);

enum Stage {
    Connecting,
    LoggingIn,
    Asking(Box<Inquirer>),
    Discovering,
}

/// What a session is ready for.
pub(super) struct Ready {
    pub(super) session: Session,
    pub(super) found: Found,
    /// The unit attentions that the logical unit had for the new session.
    pub(super) attentions: Vec<(u8, u8)>,
}

/// A session that is being made.
pub(super) struct Attempt {
    library: &'static Library,
    terms: Terms,
    session: Session,
    stage: Stage,
    inquirer: fn() -> Inquirer,
    redirections: u8,
    answers: Vec<Answer>,
}

impl Attempt {
    /// Begins to connect; the logical unit is then asked about itself.
    pub(super) fn begin(terms: &Terms, place: SocketAddr) -> Result<Attempt, IscsiError> {
        Attempt::asking(terms, place, Inquirer::of_disk)
    }

    /// Begins to connect; `inquirer` makes the questions that are then asked.
    pub(super) fn asking(
        terms: &Terms,
        place: SocketAddr,
        inquirer: fn() -> Inquirer,
    ) -> Result<Attempt, IscsiError> {
        let library = library().map_err(IscsiError::Library)?;
        let session = connect(library, terms, place)?;
        let (terms, stage) = (terms.clone(), Stage::Connecting);
        Ok(Attempt { library, terms, session, stage, inquirer, redirections: 0, answers: Vec::new() })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Goes on as far as it can within a time. `false`: the target's answer is awaited.
    pub(super) fn advance(&mut self, timeout: Duration) -> Result<bool, IscsiError> {
        let mut timeout = timeout;
        // The answer to a discovery is for the one who asked for it.
        while !matches!(self.stage, Stage::Discovering) {
            if !self.session.service_after(std::mem::take(&mut timeout)) {
                return Err(self.ended());
            }
            let went_on = match self.stage {
                Stage::Asking(_) => self.hear()?,
                _ => match self.session.staged() {
                    Some(status) => self.next_stage(status)?,
                    None => false,
                },
            };
            if self.is_done() {
                return Ok(true);
            }
            if !went_on {
                break;
            }
        }
        Ok(false)
    }

    fn is_done(&self) -> bool {
        match &self.stage {
            Stage::Asking(inquirer) => inquirer.next().is_none(),
            _ => false,
        }
    }

    /// The session, once [`Attempt::advance`] has returned `true`.
    pub(super) fn into_ready(self) -> Option<Ready> {
        let Stage::Asking(inquirer) = self.stage else { return None };
        let (found, attentions) = inquirer.into_found();
        Some(Ready { session: self.session, found, attentions })
    }

    /// Why the connection ended.
    fn ended(&mut self) -> IscsiError {
        match (&self.stage, self.session.staged()) {
            // The library says nothing of a target that closes it without an answer.
            (Stage::LoggingIn, None) => {
                IscsiError::Connect("the target has closed it during the login".to_owned())
            }
            _ => self.failed(),
        }
    }

    fn failed(&self) -> IscsiError {
        let why = self.session.error();
        match self.stage {
            Stage::Connecting => IscsiError::Connect(why),
            Stage::LoggingIn | Stage::Discovering => IscsiError::Login(why),
            Stage::Asking(_) => IscsiError::Connect("it ended while the logical unit was asked".to_owned()),
        }
    }

    fn next_stage(&mut self, status: i32) -> Result<bool, IscsiError> {
        match (&self.stage, status) {
            (Stage::LoggingIn, status::REDIRECT) => self.redirect(),
            (_, status) if status != status::GOOD => Err(self.failed()),
            (Stage::Connecting, _) => {
                self.stage = Stage::LoggingIn;
                match self.session.log_in() {
                    true => Ok(true),
                    false => Err(self.failed()),
                }
            }
            (Stage::LoggingIn, _) if self.terms.target.is_none() => {
                self.stage = Stage::Discovering;
                match self.session.discover() {
                    true => Ok(true),
                    false => Err(self.failed()),
                }
            }
            (Stage::LoggingIn, _) => {
                self.stage = Stage::Asking(Box::new((self.inquirer)()));
                self.ask()
            }
            (Stage::Asking(_) | Stage::Discovering, _) => Ok(false),
        }
    }

    /// The target wants the login at another address.
    fn redirect(&mut self) -> Result<bool, IscsiError> {
        let address = self.session.redirected_to();
        self.redirections += 1;
        let address = address.split(',').next().unwrap_or_default();
        let places = address.to_socket_addrs().or_else(|_| (address, 3260).to_socket_addrs());
        let place = places.ok().and_then(|mut places| places.next());
        match place {
            Some(place) if self.redirections <= REDIRECTIONS => {
                self.session = connect(self.library, &self.terms, place)?;
                self.stage = Stage::Connecting;
                Ok(true)
            }
            _ => Err(IscsiError::Login(format!("it sends the login on, to {address:?}, without an end"))),
        }
    }

    /// Sends the next question.
    fn ask(&mut self) -> Result<bool, IscsiError> {
        let Stage::Asking(inquirer) = &self.stage else { return Ok(false) };
        let Some((cdb, len)) = inquirer.next() else { return Ok(false) };
        let way = if len == 0 { Transfer::None } else { Transfer::FromDevice };
        match self.session.send(0, cdb.bytes(), way, Buffers::own(vec![0; len])) {
            Ok(()) => Ok(true),
            Err(_) => Err(self.failed()),
        }
    }

    /// Hears the answer to a question. Whether there was one.
    fn hear(&mut self) -> Result<bool, IscsiError> {
        self.session.take_answers(&mut self.answers);
        let (Stage::Asking(inquirer), Some(answer)) = (&mut self.stage, self.answers.pop()) else {
            return Ok(false);
        };
        let refused = match answer.status {
            status::GOOD => {
                let len = answer.buffers.bytes().saturating_sub(answer.missing as usize);
                inquirer.take(Ok(&answer.buffers.into_own(len)))
            }
            status::CHECK_CONDITION => inquirer.take(Err(&answer.sense)),
            status::BUSY | status::TASK_SET_FULL => Err(Refused::NotReady("it is busy".to_owned())),
            status::RESERVATION_CONFLICT => {
                Err(Refused::Unfit("another initiator has reserved the logical unit".to_owned()))
            }
            _ => return Err(self.failed()),
        };
        refused.map_err(|refused| match refused {
            Refused::NotReady(why) => IscsiError::NotReady(why),
            Refused::NoUnit => {
                let hint = "`platter iscsi discover HOST` lists those that there are";
                IscsiError::Unfit(format!("the target has no such logical unit; {hint}"))
            }
            Refused::Unfit(why) => IscsiError::Unfit(why),
        })?;
        self.ask()?;
        Ok(true)
    }
}

fn connect(library: &'static Library, terms: &Terms, place: SocketAddr) -> Result<Session, IscsiError> {
    let mut session = Session::new(library, terms).map_err(IscsiError::Unfit)?;
    match session.connect(&place.to_string()) {
        true => Ok(session),
        false => Err(IscsiError::Connect(session.error())),
    }
}

/// The addresses of a host. Blocks while the name is looked up.
pub(super) fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, IscsiError> {
    let places: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(IscsiError::Resolve)?.collect();
    match places.is_empty() {
        true => Err(IscsiError::Unfit(format!("the host {host} has no address"))),
        false => Ok(places),
    }
}

/// Does `then` with an attempt at each of the addresses, and blocks until that has succeeded or failed.
pub(super) fn at_each<T>(
    terms: &Terms,
    places: &[SocketAddr],
    timeout: Duration,
    inquirer: fn() -> Inquirer,
    then: impl Fn(Attempt, Instant) -> Result<T, IscsiError>,
) -> Result<T, IscsiError> {
    let mut last = IscsiError::Silent;
    for place in places {
        let until = Instant::now() + timeout;
        loop {
            match Attempt::asking(terms, *place, inquirer).and_then(|attempt| then(attempt, until)) {
                Ok(done) => return Ok(done),
                Err(error @ (IscsiError::Connect(_) | IscsiError::Silent)) => {
                    last = error;
                    break;
                }
                Err(IscsiError::NotReady(_)) if Instant::now() + PAUSE < until => std::thread::sleep(PAUSE),
                // A target that has answered is the one that is meant.
                Err(error) => return Err(error),
            }
        }
    }
    Err(last)
}

/// Finishes an attempt by a time.
pub(super) fn finish(mut attempt: Attempt, until: Instant) -> Result<Ready, IscsiError> {
    wait(&mut attempt, until, |attempt| attempt.is_done())?;
    attempt.into_ready().ok_or(IscsiError::Silent)
}

/// Finishes a discovery by a time.
pub(super) fn discover(mut attempt: Attempt, until: Instant) -> Result<Session, IscsiError> {
    wait(&mut attempt, until, |attempt| matches!(attempt.stage, Stage::Discovering))?;
    loop {
        if let Some(status) = attempt.session.staged() {
            return if status == status::GOOD { Ok(attempt.session) } else { Err(attempt.failed()) };
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(IscsiError::Silent);
        }
        if !attempt.session.service_after(left) {
            return Err(attempt.failed());
        }
    }
}

fn wait(attempt: &mut Attempt, until: Instant, is_done: impl Fn(&Attempt) -> bool) -> Result<(), IscsiError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        attempt.advance(left)?;
        if is_done(attempt) {
            return Ok(());
        }
        if left.is_zero() {
            return Err(IscsiError::Silent);
        }
    }
}
