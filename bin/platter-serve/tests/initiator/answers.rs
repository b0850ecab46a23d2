//! What the initiator does with answers other than good ones, which a relay puts in the place of the target's.

use crate::between::{Fate, Relay, Unit};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use platter_block::bio::Bio;
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_remote::iscsi::client::IscsiOptions;
use platter_remote::iscsi::wire::{HEADER_BYTES, at, flag, opcode};
use platter_scsi::cdb::{READ_10, WRITE_10};
use platter_scsi::page;
use platter_scsi::sense::{Failure, Key};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Answers to writes, counted.
struct Writes {
    tags: Mutex<HashSet<(usize, u32)>>,
    count: AtomicUsize,
}

impl Writes {
    fn new() -> Arc<Writes> {
        Arc::new(Writes { tags: Mutex::default(), count: AtomicUsize::new(0) })
    }

    /// The number of the write, from 0, that a unit answers.
    fn answered(&self, unit: &Unit<'_>) -> Option<usize> {
        let header = unit.header();
        let key = (unit.connection, header.task_tag());
        if unit.to_target && header.opcode() == opcode::COMMAND && unit.bytes[32] == WRITE_10.opcode {
            self.tags.lock().unwrap().insert(key);
        }
        let answers = !unit.to_target && header.opcode() == opcode::RESPONSE;
        (answers && self.tags.lock().unwrap().remove(&key)).then(|| self.count.fetch_add(1, Ordering::SeqCst))
    }
}

/// A response with another status, and sense data.
fn with_status(bytes: &[u8], status: u8, sense: &[u8]) -> Vec<u8> {
    let mut answer = bytes[..HEADER_BYTES].to_vec();
    (answer[3], answer[4]) = (status, 0);
    answer[5..8].fill(0);
    if !sense.is_empty() {
        answer[7] = 2 + sense.len() as u8;
        answer.extend((sense.len() as u16).to_be_bytes());
        answer.extend(sense);
        answer.resize(answer.len().next_multiple_of(4), 0);
    }
    answer
}

/// A device behind a relay that puts another status in the place of that of some writes.
fn behind(
    serving: &Serving,
    options: IscsiOptions,
    answer: impl Fn(usize) -> Option<(u8, Vec<u8>)> + Send + Sync + 'static,
) -> Option<(Device, Relay)> {
    let writes = Writes::new();
    let relay = Relay::new(serving.address(), move |unit| match writes.answered(unit).and_then(&answer) {
        Some((status, sense)) => Fate::Replace(with_status(unit.bytes, status, &sense)),
        None => Fate::Pass,
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    Some((connect(&url, "noop", options)?, relay))
}

fn fact(device: &Device, name: &str) -> String {
    device.facts().into_iter().find(|fact| fact.0 == name).map_or(String::new(), |fact| fact.1)
}

fn sense(key: Key, asc: u8, ascq: u8) -> Vec<u8> {
    Failure::new(key, asc, ascq).to_fixed().to_vec()
}

#[test]
fn a_target_without_room_is_asked_again() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let busy = |number| (number < 4).then_some((if number % 2 == 0 { 8 } else { 0x28 }, vec![]));
    let Some((device, _relay)) = behind(&serving, IscsiOptions::default(), busy) else { return };
    device.write_at(&[7; 512], 0).unwrap();
    assert_eq!(fact(&device, "busy answers"), "4");
}

#[test]
fn attentions_and_aborts_by_others_are_followed_by_the_same_command() {
    for first in
        [(2, sense(Key::UNIT_ATTENTION, 0x2a, 1)), (2, sense(Key::ABORTED_COMMAND, 0x47, 5)), (0x40, vec![])]
    {
        let serving = Serving::new(Device::ram(SIZE).unwrap());
        let answer = move |number| (number == 0).then(|| first.clone());
        let Some((device, _relay)) = behind(&serving, IscsiOptions::default(), answer) else { return };
        device.write_at(&[7; 512], 0).unwrap();
        assert_eq!(
            (fact(&device, "repeated commands"), fact(&device, "reconnects")),
            ("1".into(), "0".into())
        );
    }
}

#[test]
fn a_command_is_not_repeated_without_end() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let aborted = |_| Some((2, sense(Key::ABORTED_COMMAND, 0x47, 5)));
    let Some((device, _relay)) = behind(&serving, IscsiOptions::default(), aborted) else { return };
    let error = device.write_at(&[7; 512], 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Io);
    assert!(error.to_string().contains("PROTOCOL SERVICE CRC ERROR"), "{error}");
}

/// A disk behind a relay whose new sessions say that only the nexus was lost. The second write is answered with a unit attention
/// of this qualifier of 29h, if there is one.
fn with_a_cache_that_stays(serving: &Serving, reset: Option<u8>) -> Option<(Device, Relay)> {
    let writes = Writes::new();
    let relay = Relay::new(serving.address(), move |unit| {
        if let (Some(1), Some(code)) = (writes.answered(unit), reset) {
            return Fate::Replace(with_status(unit.bytes, 2, &sense(Key::UNIT_ATTENTION, 0x29, code)));
        }
        let header = unit.header();
        let is_attention = !unit.to_target && header.opcode() == opcode::RESPONSE && header.0[3] == 2;
        match is_attention && unit.connection > 0 {
            true => Fate::Replace(with_status(unit.bytes, 2, &sense(Key::UNIT_ATTENTION, 0x29, 7))),
            false => Fate::Pass,
        }
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let device = connect(&url, "noop", IscsiOptions::default())?;
    device.write_at(&[1; 512], 0).unwrap();
    device.write_at(&[2; 512], 512).unwrap();
    Some((device, relay))
}

/// A served file: a disk in memory has no cache that could be lost.
fn with_a_cache() -> (Serving, NamedTempFile) {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(SIZE).unwrap();
    (Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap()), file)
}

#[test]
fn after_a_reset_there_is_another_session_and_a_flush_tells_of_a_lost_cache() {
    for (code, loses) in [(0, true), (1, true), (3, false)] {
        let (serving, _file) = with_a_cache();
        let Some((device, _relay)) = with_a_cache_that_stays(&serving, Some(code)) else { return };
        assert_eq!(fact(&device, "reconnects"), "1");
        assert_eq!(device.flush().is_err(), loses, "29h {code:02x}h");
        device.acknowledge_flush_failure();
        device.flush().unwrap();
    }
}

#[test]
fn a_unit_that_has_lost_only_the_nexus_has_its_cache() {
    let (serving, _file) = with_a_cache();
    let Some((device, relay)) = with_a_cache_that_stays(&serving, None) else { return };
    relay.cut();
    device.flush().unwrap();
    assert_eq!(fact(&device, "reconnects"), "1");
}

#[test]
fn what_a_target_leaves_out_is_read_again() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let (reads, cuts) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(true));
    let count = Arc::clone(&reads);
    let relay = Relay::new(serving.address(), move |unit| {
        let header = unit.header();
        if unit.to_target && header.opcode() == opcode::COMMAND && unit.bytes[32] == READ_10.opcode {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let ends = header.opcode() == opcode::DATA_IN && header.flags() & flag::STATUS != 0;
        if !ends || header.data_bytes() != 4096 || !cuts.swap(false, Ordering::SeqCst) {
            return Fate::Pass;
        }
        // The answer has the first half, and says so.
        let mut short = unit.bytes[..HEADER_BYTES + 2048].to_vec();
        short[1] |= flag::UNDERFLOW;
        short[5..8].copy_from_slice(&[0, 8, 0]);
        short[at::RESIDUAL..at::RESIDUAL + 4].copy_from_slice(&2048u32.to_be_bytes());
        Fate::Replace(short)
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    let written: Vec<u8> = (0..4096u32).map(|n| (n ^ n >> 8) as u8).collect();
    device.write_at(&written, 0).unwrap();
    let mut data = vec![0; 4096];
    device.read_at(&mut data, 0).unwrap();
    assert!(data == written);
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[test]
fn failures_have_their_kinds_and_words() {
    let cases = [
        (2, sense(Key::MEDIUM_ERROR, 0x0c, 0), Kind::Io, "MEDIUM ERROR"),
        (2, sense(Key::DATA_PROTECT, 0x27, 0), Kind::ReadOnly, "WRITE PROTECTED"),
        (2, sense(Key::DATA_PROTECT, 0x27, 7), Kind::NoSpace, "SPACE ALLOCATION FAILED"),
        (2, sense(Key::ILLEGAL_REQUEST, 0x25, 0), Kind::Gone, "LOGICAL UNIT NOT SUPPORTED"),
        (0x18, vec![], Kind::Io, "RESERVATION CONFLICT"),
    ];
    for (status, sense, kind, words) in cases {
        let serving = Serving::new(Device::ram(SIZE).unwrap());
        let answer = move |_| Some((status, sense.clone()));
        let Some((device, relay)) = behind(&serving, IscsiOptions::default(), answer) else { return };
        let error = device.write_at(&[7; 512], 4096).unwrap_err();
        assert_eq!((error.fault.kind, error.offset), (kind, 4096), "{error}");
        let text = error.to_string();
        for part in [words, TARGET, &relay.address.to_string()] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_command_whose_answer_stays_away_is_aborted_at_its_deadline() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let holds = Arc::new(AtomicBool::new(false));
    let (held, writes) = (Arc::clone(&holds), Writes::new());
    let (tell, told) = mpsc::channel();
    let relay = Relay::new(serving.address(), move |unit| {
        if unit.to_target && unit.header().opcode() == opcode::MANAGEMENT {
            tell.send(unit.header().get(at::REFERENCED_TAG)).unwrap();
        }
        match writes.answered(unit) {
            Some(_) if held.load(Ordering::SeqCst) => Fate::Drop,
            _ => Fate::Pass,
        }
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    holds.store(true, Ordering::SeqCst);
    let options = IoOptions::default().with_timeout(Some(Span::from_millis(20)));
    let error = device.write_at_with(&[2; 512], 0, options).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut, "{error}");
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    holds.store(false, Ordering::SeqCst);
    // The write is late until the target has answered the abort, and what overlaps it waits.
    writes_after_one_abort(&device);
}

/// Writes and reads the block of a write that was aborted, in the same session.
fn writes_after_one_abort(device: &Device) {
    device.write_at(&[3; 512], 0).unwrap();
    let mut data = [0; 512];
    device.read_at(&mut data, 0).unwrap();
    assert_eq!(
        (data, fact(device, "aborts"), fact(device, "reconnects")),
        ([3; 512], "1".into(), "0".into())
    );
}

/// Waits for something that another thread does, for a minute at most.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() && Instant::now() < end {
        std::thread::yield_now();
    }
}

#[test]
fn a_late_answer_to_an_abort_ends_no_other_command() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let (aborts, sent) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let writes = Writes::new();
    let relay = Relay::new(serving.address(), move |unit| {
        let answered = writes.answered(unit);
        match (unit.to_target, unit.header().opcode()) {
            (true, opcode::MANAGEMENT) => _ = aborts.fetch_add(1, Ordering::SeqCst),
            (true, opcode::COMMAND) if unit.bytes[32] == WRITE_10.opcode => {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            // The answer to the abort comes when another write has taken the place of the first one.
            (false, opcode::MANAGEMENT_RESPONSE) => wait_until(|| sent.load(Ordering::SeqCst) == 2),
            _ => {}
        }
        match answered {
            Some(0) => wait_until(|| aborts.load(Ordering::SeqCst) == 1),
            // So that the initiator takes the answer to the abort by itself; if it takes both at once, this shows less.
            Some(_) => (0..50_000).for_each(|_| std::thread::yield_now()),
            None => {}
        }
        Fate::Pass
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    let options = IoOptions::default().with_timeout(Some(Span::from_millis(20)));
    // On a busy machine the answer may be there before the call looks again: then it has succeeded, and this shows less.
    if let Err(error) = device.write_at_with(&[2; 512], 0, options) {
        assert_eq!(error.fault.kind, Kind::TimedOut, "{error}");
    }
    writes_after_one_abort(&device);
}

/// A unit of the target that has room for one command.
fn with_room_for_one(unit: &Unit<'_>) -> Vec<u8> {
    let header = unit.header();
    let mut bytes = unit.bytes.to_vec();
    bytes[..HEADER_BYTES].copy_from_slice(&header.with(at::MAX_CMD_SN, header.get(at::EXP_CMD_SN)).0);
    bytes
}

#[test]
fn an_abort_does_not_overtake_a_command_that_the_target_has_no_room_for() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let is_late = Arc::new(AtomicBool::new(false));
    let (late, commands) = (Arc::clone(&is_late), Mutex::new(HashMap::new()));
    let (tell_read, told_read) = mpsc::channel();
    let (tell_abort, told_abort) = mpsc::channel();
    let relay = Relay::new(serving.address(), move |unit| {
        let (header, code) = (unit.header(), unit.bytes[32]);
        let tag = header.task_tag();
        match (unit.to_target, header.opcode()) {
            (true, opcode::COMMAND) => {
                commands.lock().unwrap().insert(tag, code);
                if code == READ_10.opcode {
                    tell_read.send(()).unwrap();
                }
            }
            (true, opcode::MANAGEMENT) => {
                let is_known = commands.lock().unwrap().contains_key(&header.get(at::REFERENCED_TAG));
                tell_abort.send(is_known).unwrap();
            }
            _ => {}
        }
        if unit.to_target {
            return Fate::Pass;
        }
        let is_of_read = commands.lock().unwrap().get(&tag) == Some(&READ_10.opcode);
        if is_of_read {
            // The answer to the read says that there is room for the write, whose deadline is over.
            wait_until(|| late.load(Ordering::SeqCst));
        }
        Fate::Replace(with_room_for_one(unit))
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    let (mut channel, mut done) = (device.channel(4).unwrap(), Vec::new());
    channel.submit(Bio::read(4096, vec![0u8; 512]).unwrap()).map_err(|_| "full").unwrap();
    while told_read.try_recv().is_err() {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    let options = IoOptions::default().with_timeout(Some(Span::from_millis(20)));
    let error = device.write_at_with(&[2; 512], 0, options).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut, "{error}");
    is_late.store(true, Ordering::SeqCst);
    writes_after_one_abort(&device);
    assert!(told_abort.recv_timeout(Duration::from_secs(60)).unwrap(), "the target had received the write");
    while done.is_empty() {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    assert!(done[0].status().is_ok());
}

#[test]
fn a_target_that_does_not_answer_an_abort_gets_another_session() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let holds = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&holds);
    let relay = Relay::new(serving.address(), move |unit| {
        match !unit.to_target && unit.connection == 0 && held.load(Ordering::SeqCst) {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let patience = IscsiOptions::default().with_peer_timeout(Span::from_millis(50));
    let Some(device) = connect(&url, "noop", patience) else { return };
    holds.store(true, Ordering::SeqCst);
    let options = IoOptions::default().with_timeout(Some(Span::from_millis(20)));
    assert_eq!(device.write_at_with(&[2; 512], 0, options).unwrap_err().fault.kind, Kind::TimedOut);
    device.write_at(&[3; 512], 0).unwrap();
    assert_eq!((fact(&device, "reconnects"), relay.connections()), ("1".into(), 2));
}

#[test]
fn commands_of_programs_reach_the_target_and_are_not_repeated() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let aborted = |number| (number == 0).then(|| (2, sense(Key::ABORTED_COMMAND, 0x47, 5)));
    let Some((device, _relay)) = behind(&serving, IscsiOptions::default(), aborted) else { return };
    let command = |bytes: &[u8], transfer, reach| {
        let command = Command::new(CommandSet::Scsi, bytes).unwrap();
        Arc::new(command.with_transfer(transfer).with_reach(reach))
    };
    let inquiry = command(&[0x12, 0, 0, 0, 255, 0], Transfer::FromDevice, Reach::Nothing);
    let mut data = [0; 255];
    let outcome = device.command(&inquiry, CommandData::FromDevice(&mut data), IoOptions::default()).unwrap();
    let decoded = page::INQUIRY.decode(&data);
    assert_eq!(outcome.residual as usize, 255 - decoded.bytes().len());
    assert_eq!(&data[8..15], b"PLATTER");
    let changes = Reach::Changes { pos: 0, len: 512 };
    let write = command(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], Transfer::ToDevice, changes);
    let send = |command| device.command(command, CommandData::ToDevice(&[9; 512]), IoOptions::default());
    assert!(send(&write).is_err());
    let outcome = write.outcome().unwrap();
    assert_eq!((outcome.status, outcome.sense.bytes()[2] & 0xf), (2, 0xb));
    assert_eq!(fact(&device, "repeated commands"), "0");
    assert!(send(&write).unwrap().is_good());
    let unknown = command(&[0xff, 0, 0, 0, 0, 0], Transfer::None, Reach::Nothing);
    let error = device.command(&unknown, CommandData::None, IoOptions::default()).unwrap_err();
    assert_eq!((error.fault.kind, unknown.outcome().unwrap().status), (Kind::Unsupported, 2), "{error}");
}

#[test]
fn a_session_that_ends_under_a_command_of_a_program_ends_the_command() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let relay = Relay::new(serving.address(), |unit| {
        let ends = unit.to_target && unit.header().opcode() == opcode::COMMAND && unit.bytes[32] == 0x35;
        if ends && unit.connection == 0 { Fate::Cut(0) } else { Fate::Pass }
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    let command = Command::new(CommandSet::Scsi, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let command = Arc::new(command.with_reach(Reach::READS_ALL));
    let error = device.command(&command, CommandData::None, IoOptions::default()).unwrap_err();
    assert_eq!((error.fault.kind, command.outcome()), (Kind::Io, None), "{error}");
    device.write_at(&[1; 512], 0).unwrap();
    assert_eq!(relay.connections(), 2);
}
