//! A device as a SCSI logical unit: commands and their data in, responses out.
//!
//! ```
//! use platter::scsi::{LogicalUnit, cdb::{self, Cdb}, unit::Status};
//! use platter::{Access, open};
//!
//! let unit = LogicalUnit::new(open("ram(1M)", Access::read_write())?);
//! let write = Cdb::new(&cdb::WRITE_10).with("LOGICAL BLOCK ADDRESS", 8).with("TRANSFER LENGTH", 1);
//! let answer = unit.execute(write.bytes(), &[7; 512]);
//! assert_eq!(answer.status, Status::Good);
//!
//! let read = Cdb::new(&cdb::READ_10).with("LOGICAL BLOCK ADDRESS", 8).with("TRANSFER LENGTH", 1);
//! assert_eq!(unit.execute(read.bytes(), &[]).data_in, [7; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod passed;

pub use compare::{CompareError, Compared, compare_and_write};

pub use platter_scsi::{cdb, disk, effect, filter, host, layout, page, sense, structure, target, unit};

use crate::steps;
use platter_block::command::CommandSet;
use platter_block::lane::Bell;
use platter_disk::device::Device;
use platter_scsi::cdb::{Cdb, TEST_UNIT_READY};
use platter_scsi::sense::{Failure, Key};
use platter_scsi::target::{Attribute, News, Nexus, Outcome, Request, Target, TaskId};
use platter_scsi::unit::{Identity, Response, Status, Step, Unit};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A device that takes SCSI commands, one after the other on each calling thread.
///
/// Commands of several threads run at the same time and are not ordered against each other; COMPARE AND WRITE runs alone
/// among those of this unit that name its blocks. All threads are one initiator; what it sets by MODE SELECT or START STOP
/// UNIT stays as long as this value. [`target::Target`] is for several initiators. The data of a command is held
/// in memory as a whole, at most [`unit::MAX_TRANSFER`] bytes.
///
/// A device that takes SCSI commands itself ([`Features::commands`](platter_block::driver::Features::commands)), a disk of the
/// system for example, gets them as they are, and its own answers are returned.
pub struct LogicalUnit {
    device: Device,
    nexus: Nexus,
    privileged: bool,
    state: Mutex<State>,
    news: Arc<NewsBell>,
}

struct State {
    target: Target,
    next: u64,
    /// Commands that have waited and may run now.
    enabled: BTreeMap<u64, TaskId>,
}

/// Wakes the threads whose commands wait for others.
#[derive(Default)]
struct NewsBell(Condvar);

impl Bell for NewsBell {
    fn ring(&self) {
        self.0.notify_all();
    }
}

/// The initiator port that all callers of a unit are.
const CALLER: &str = "caller";

impl LogicalUnit {
    /// The unit of a device. Its serial number is the device's name.
    pub fn new(device: Device) -> LogicalUnit {
        let identity = Identity {
            vendor: "PLATTER".to_owned(),
            product: "BLOCK DEVICE".to_owned(),
            revision: env!("CARGO_PKG_VERSION").to_owned(),
            serial: device.name().to_string(),
        };
        let news = Arc::new(NewsBell::default());
        let mut target = Target::new(Unit::new(identity, device.geometry()));
        let nexus = target.connect(CALLER, Arc::clone(&news) as Arc<dyn Bell>);
        let state = State { target, next: 0, enabled: BTreeMap::new() };
        let unit = LogicalUnit { device, nexus, privileged: true, state: Mutex::new(state), news };
        if !takes_commands(&unit.device) {
            // Takes the unit attention of power on: the caller has made the unit and knows.
            let _ = unit.execute(Cdb::new(&TEST_UNIT_READY).bytes(), &[]);
        }
        unit
    }

    /// The same, for a program without the capability `CAP_SYS_RAWIO`: it may send only what Linux lets such a program send.
    ///
    /// # Examples
    /// ```
    /// use platter::registry::{self, Access};
    /// use platter::scsi::LogicalUnit;
    /// use platter::scsi::cdb::{COMPARE_AND_WRITE, Cdb, TEST_UNIT_READY};
    /// use platter::scsi::sense::Sense;
    /// use platter::scsi::unit::Status;
    ///
    /// let unit = LogicalUnit::new(registry::open("ram(1M)", Access::read_write())?).unprivileged();
    /// assert_eq!(unit.execute(Cdb::new(&TEST_UNIT_READY).bytes(), &[]).status, Status::Good);
    /// let compare = Cdb::new(&COMPARE_AND_WRITE).with("NUMBER OF LOGICAL BLOCKS", 1);
    /// println!("{}", unit.allows(compare.bytes()).unwrap_err());
    /// let answer = unit.execute(compare.bytes(), &[0; 1024]);
    /// assert_eq!(answer.status, Status::CheckCondition);
    /// assert_eq!(Sense::decode(&answer.sense).unwrap().code(), (0x20, 0x02));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unprivileged(self) -> LogicalUnit {
        LogicalUnit { privileged: false, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a command out, with this data from the initiator. Data of the medium is in the response's `data_in`, as far
    /// as it was read. Failures are in its status and sense data: also that the device has another size since the last
    /// command, which is a unit attention.
    ///
    /// What [`allows`](LogicalUnit::allows) refuses is not sent: the answer is DATA PROTECT, WRITE PROTECTED for a handle that is
    /// open for reading only, and ILLEGAL REQUEST, ACCESS DENIED - NO ACCESS RIGHTS for one without privileges.
    pub fn execute(&self, cdb: &[u8], data_out: &[u8]) -> Response {
        if let Err(rule) = self.allows(cdb) {
            return refused(rule);
        }
        if takes_commands(&self.device) {
            return passed::pass(&self.device, cdb, data_out);
        }
        let mut state = self.state();
        // Of now: a file below the device may have grown.
        state.target.observe(&self.device.geometry());
        state.next += 1;
        let token = state.next;
        let request = Request { cdb, data_out, attribute: Attribute::Simple, token };
        let mut outcome = state.target.begin(self.nexus, &request);
        loop {
            outcome = match outcome {
                Outcome::Respond(response) => return response,
                Outcome::Run(task, steps) => {
                    drop(state);
                    return self.carry_out(task, &steps, data_out);
                }
                Outcome::Wait(_) => {
                    let task;
                    (state, task) = self.wait(state, token);
                    state.target.resume(task, cdb, data_out)
                }
            };
        }
    }

    /// Whether this device's handle may send a command: if the device is read-only, none that may change it; without
    /// privileges, only those of [`filter::TABLE`]. A command that is not known here may change anything, except that a unit
    /// which is not a disk of commands itself carries none out and says so.
    ///
    /// # Errors
    /// The rule that refuses it. [`execute`](LogicalUnit::execute) answers such a command with sense data.
    pub fn allows(&self, cdb: &[u8]) -> Result<(), filter::Rule> {
        let writable = !self.device.geometry().features.read_only;
        filter::linux(cdb, filter::Handle { writable, privileged: self.privileged })?;
        let is_carried_out = takes_commands(&self.device) || Cdb::decode(cdb).is_ok();
        if writable || !is_carried_out { Ok(()) } else { filter::read_only(cdb) }
    }

    /// Waits until the command of this token may run.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, token: u64) -> (MutexGuard<'a, State>, TaskId) {
        loop {
            // No command is ever dropped: nothing here aborts any.
            while let Some(news) = state.target.news(self.nexus) {
                if let News::Enabled(task, token) = news {
                    state.enabled.insert(token, task);
                    // The news may be for another thread.
                    self.news.ring();
                }
            }
            if let Some(task) = state.enabled.remove(&token) {
                return (state, task);
            }
            state = self.news.0.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&self, task: TaskId, steps: &[Step], data_out: &[u8]) -> Response {
        let (mut data_in, mut failed) = (Vec::new(), None);
        for step in steps {
            if let Err(error) = steps::carry_out(&self.device, step, data_out, &mut data_in) {
                failed = Some((step, error));
                break;
            }
        }
        let mut state = self.state();
        state.target.end(task);
        let response = match failed {
            None => state.target.done(),
            Some((step, error)) => state.target.failed(step, error),
        };
        Response { data_in, ..response }
    }
}

/// The answer to a command that is not sent.
fn refused(rule: filter::Rule) -> Response {
    let failure = match rule {
        filter::Rule::Changes { .. } => Failure::new(Key::DATA_PROTECT, 0x27, 0x00),
        filter::Rule::Empty | filter::Rule::Unlisted { .. } | filter::Rule::Writing { .. } => {
            Failure::new(Key::ILLEGAL_REQUEST, 0x20, 0x02)
        }
    };
    Response { sense: failure.to_fixed().to_vec(), ..Response::of(Status::CheckCondition) }
}

/// Whether commands go to the disk itself.
fn takes_commands(device: &Device) -> bool {
    device.geometry().features.commands.contains(CommandSet::Scsi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, open};

    fn unit(spec: &str) -> LogicalUnit {
        LogicalUnit::new(open(spec, Access::read_write()).unwrap())
    }

    fn at(command: &'static cdb::Command, lba: u64) -> Cdb {
        Cdb::new(command).with("LOGICAL BLOCK ADDRESS", lba)
    }

    #[test]
    fn a_pattern_of_one_block_fills_more_than_a_piece() {
        let unit = unit("ram(8M)");
        let block: Vec<u8> = (0..512).map(|n| n as u8).collect();
        let fill = at(&cdb::WRITE_SAME_16, 3).with("NUMBER OF LOGICAL BLOCKS", 5000);
        assert_eq!(unit.execute(fill.bytes(), &block).status, Status::Good);
        let read = |lba, blocks| {
            unit.execute(at(&cdb::READ_10, lba).with("TRANSFER LENGTH", blocks).bytes(), &[]).data_in
        };
        assert!(read(3, 5000) == block.repeat(5000));
        assert_eq!((read(2, 1), read(5003, 1)), (vec![0; 512], vec![0; 512]));
        let mut wanted = block.repeat(5000);
        let verify = at(&cdb::VERIFY_16, 3).with("BYTCHK", 1).with("VERIFICATION LENGTH", 5000);
        assert_eq!(unit.execute(verify.bytes(), &wanted).status, Status::Good);
        wanted[2_000_000] ^= 1;
        let sense = unit.execute(verify.bytes(), &wanted).sense;
        assert_eq!(sense::Sense::decode(&sense).unwrap().information(), Some(2_000_000));
    }

    #[test]
    fn counters_that_threads_advance_by_compare_and_write_lose_no_step() {
        const STEPS: u64 = 200;
        let unit = unit("ram(64K)");
        let advance = || {
            for _ in 0..STEPS {
                loop {
                    let now =
                        unit.execute(at(&cdb::READ_10, 3).with("TRANSFER LENGTH", 1).bytes(), &[]).data_in;
                    let count = u64::from_le_bytes(now[..8].try_into().unwrap());
                    let mut next = now.clone();
                    next[..8].copy_from_slice(&(count + 1).to_le_bytes());
                    let swap = at(&cdb::COMPARE_AND_WRITE, 3).with("NUMBER OF LOGICAL BLOCKS", 1);
                    let answer = unit.execute(swap.bytes(), &[now, next].concat());
                    if answer.status == Status::Good {
                        break;
                    }
                    assert_eq!(sense::Sense::decode(&answer.sense).unwrap().key(), sense::Key::MISCOMPARE);
                }
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(advance)));
        let read = unit.execute(at(&cdb::READ_10, 3).with("TRANSFER LENGTH", 1).bytes(), &[]).data_in;
        assert_eq!(u64::from_le_bytes(read[..8].try_into().unwrap()), 3 * STEPS);
    }

    #[test]
    fn what_is_selected_stays_and_is_told() {
        let unit = unit("ram(1M)");
        let why = |response: &Response| sense::Sense::decode(&response.sense).map(|sense| sense.code());
        let ask = |cdb: Cdb| unit.execute(cdb.bytes(), &[]);
        let ready = || ask(Cdb::new(&cdb::TEST_UNIT_READY));
        let pending = || {
            why(&Response {
                sense: ask(Cdb::new(&cdb::REQUEST_SENSE).with("ALLOCATION LENGTH", 18)).data_in,
                ..ready()
            })
        };
        assert_eq!((ready().status, pending()), (Status::Good, Ok((0, 0))));
        assert_eq!(ask(Cdb::new(&cdb::START_STOP_UNIT)).status, Status::Good);
        assert_eq!((why(&ready()), pending()), (Ok((4, 2)), Ok((4, 2))));
        assert_eq!(ask(Cdb::new(&cdb::START_STOP_UNIT).with("START", 1)).status, Status::Good);
        // SWP of the Control mode page.
        let list = [&[0; 8][..], &[0x0a, 10, 0, 0x10, 8, 0, 0, 0, 0, 0, 0, 0]].concat();
        let select = Cdb::new(&cdb::MODE_SELECT_10).with("PF", 1).with("PARAMETER LIST LENGTH", 20);
        assert_eq!(unit.execute(select.bytes(), &list).status, Status::Good);
        let write = at(&cdb::WRITE_10, 0).with("TRANSFER LENGTH", 1);
        assert_eq!(why(&unit.execute(write.bytes(), &[1; 512])), Ok((0x27, 2)));
        ask(at(&cdb::READ_10, 0).with("TRANSFER LENGTH", 3));
        let log = ask(Cdb::new(&cdb::LOG_SENSE)
            .with("PC", 1)
            .with("PAGE CODE", 0x19)
            .with("ALLOCATION LENGTH", 99))
        .data_in;
        let counts = page::log(&log).decode(&log).items()[0];
        assert_eq!(counts.get("NUMBER OF READ COMMANDS"), Some(1));
        assert_eq!(counts.get("NUMBER OF LOGICAL BLOCKS TRANSMITTED"), Some(3));
    }

    #[test]
    fn a_device_that_grows_is_an_attention() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let device = open(path.to_str().unwrap(), Access::read_write()).unwrap();
        let unit = LogicalUnit::new(device.clone());
        let ready = || unit.execute(Cdb::new(&cdb::TEST_UNIT_READY).bytes(), &[]);
        assert_eq!(ready().status, Status::Good);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
        device.refresh().unwrap();
        assert_eq!(sense::Sense::decode(&ready().sense).unwrap().code(), (0x2a, 9));
        assert_eq!(ready().status, Status::Good);
    }

    #[test]
    fn a_read_only_device_names_the_rule() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let unit = LogicalUnit::new(open(path.to_str().unwrap(), Access::read()).unwrap());
        let write = at(&cdb::WRITE_10, 9).with("TRANSFER LENGTH", 1);
        let rule = unit.allows(write.bytes()).unwrap_err().to_string();
        assert!(rule.contains("2ah may change blocks from 9 on"), "{rule}");
        assert_eq!(unit.allows(at(&cdb::READ_10, 9).bytes()), Ok(()));
    }

    #[test]
    fn what_a_handle_may_not_send_is_not_carried_out() {
        let why = |unit: &LogicalUnit, cdb: &[u8]| {
            let response = unit.execute(cdb, &[]);
            let sense = sense::Sense::decode(&response.sense);
            (response.status, sense.map(|sense| (sense.key(), sense.code())).ok())
        };
        let denied = |key, code| (Status::CheckCondition, Some((key, code)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let reader = LogicalUnit::new(open(path.to_str().unwrap(), Access::read()).unwrap());
        // The unit itself would carry these out: no block of the medium changes.
        for row in [&cdb::START_STOP_UNIT, &cdb::MODE_SELECT_10] {
            let protected = denied(sense::Key::DATA_PROTECT, (0x27, 0));
            assert_eq!(why(&reader, Cdb::new(row).bytes()), protected, "{}", row.name);
        }
        assert_eq!(why(&reader, Cdb::new(&TEST_UNIT_READY).bytes()), (Status::Good, None));
        let unknown = denied(sense::Key::ILLEGAL_REQUEST, (0x20, 0));
        assert_eq!(why(&reader, &[0xc1; 10]), unknown);

        let plain = unit("ram(1M)").unprivileged();
        let same = at(&cdb::COMPARE_AND_WRITE, 0).with("NUMBER OF LOGICAL BLOCKS", 0);
        assert!(plain.allows(same.bytes()).unwrap_err().to_string().contains("CAP_SYS_RAWIO"));
        assert_eq!(why(&plain, same.bytes()), denied(sense::Key::ILLEGAL_REQUEST, (0x20, 2)));
        assert_eq!(why(&plain, at(&cdb::READ_10, 0).bytes()), (Status::Good, None));
        assert_eq!(why(&unit("ram(1M)"), same.bytes()), (Status::Good, None));
    }

    #[test]
    fn a_bad_sector_is_a_medium_error_at_its_block() {
        let unit = unit("error(offset=64K, length=4K, op=read, ram(1M))");
        let read = unit.execute(at(&cdb::READ_10, 120).with("TRANSFER LENGTH", 16).bytes(), &[]);
        let sense = sense::Sense::decode(&read.sense).unwrap();
        assert_eq!((sense.key(), sense.code()), (sense::Key::MEDIUM_ERROR, (0x11, 0)));
        assert_eq!((sense.information(), read.data_in.len()), (Some(128), 8 * 512));
    }
}
