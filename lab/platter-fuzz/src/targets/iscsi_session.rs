//! Units of an iSCSI initiator after its login, to a session of a server on a device in memory.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::device::Device;
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{DIGEST_BYTES, HEADER_BYTES, Header, NO_TAG, at, flag, opcode, padding};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) const TARGET: Target = Target {
    name: "iscsi-session",
    summary: "units of an iSCSI initiator after its login",
    generate,
    mutate,
    read,
    memory: 16 << 20,
};

/// Most bytes of an input that are sent: they find room in the socket, whatever the server does with them.
const MOST_SENT: usize = 32 << 10;

/// Commands of a session at a time.
const DEPTH: usize = 4;

/// Longest segment that the server may send.
const MOST_RECEIVED: usize = 1024;

/// Longest wait for the server; a session takes less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(30);

/// Commands that a disk takes, and some that it does not.
const COMMANDS: &[&cdb::Command] = &[
    &cdb::READ_10,
    &cdb::WRITE_10,
    &cdb::WRITE_10,
    &cdb::WRITE_16,
    &cdb::COMPARE_AND_WRITE,
    &cdb::WRITE_SAME_16,
    &cdb::UNMAP,
    &cdb::VERIFY_10,
    &cdb::SYNCHRONIZE_CACHE_10,
    &cdb::INQUIRY,
    &cdb::REPORT_LUNS,
    &cdb::MODE_SELECT_6,
    &cdb::TEST_UNIT_READY,
    &cdb::PERSISTENT_RESERVE_OUT_REGISTER,
    &cdb::GET_LBA_STATUS,
];

/// A unit, most often right: few task tags, so that units belong together, and numbers that go on.
fn unit(rng: &mut Rng, number: &mut u32) -> Vec<u8> {
    let kinds = [
        opcode::COMMAND,
        opcode::COMMAND,
        opcode::COMMAND,
        opcode::DATA_OUT,
        opcode::DATA_OUT,
        opcode::NOP_OUT,
        opcode::MANAGEMENT,
        opcode::TEXT,
        opcode::LOGOUT,
        opcode::SNACK,
    ];
    let kind = *rng.pick(&kinds);
    let immediate = rng.one_in(3);
    let mut header = Header::new(kind | u8::from(immediate) << 6, flag::FINAL)
        .with(at::TASK_TAG, rng.below(4) as u32)
        .with(at::CMD_SN, *number);
    let mut data = Vec::new();
    match kind {
        opcode::COMMAND => {
            let mut cdb = Cdb::new(COMMANDS[rng.index(COMMANDS.len())]);
            for field in cdb.command().fields {
                let _ = cdb.set(field.name, rng.below(3));
            }
            let blocks = 512 * rng.below(4) as u32;
            let direction =
                if cdb.command().direction == cdb::Direction::Out { flag::WRITE } else { flag::READ };
            let attribute = rng.below(4) as u8;
            header.0[1] = direction | attribute | if rng.one_in(6) { 0 } else { flag::FINAL };
            header =
                header.with(at::EXPECTED_LENGTH, if rng.one_in(8) { rng.extreme(32) as u32 } else { blocks });
            header.0[32..32 + cdb.bytes().len()].copy_from_slice(cdb.bytes());
            if direction == flag::WRITE && rng.one_in(2) {
                data.resize(rng.below(u64::from(blocks) + 1) as usize, 7);
            }
        }
        opcode::DATA_OUT => {
            // The first slots and their first bursts, as the server numbers them, or unsolicited data.
            let tag = if rng.one_in(2) { NO_TAG } else { rng.below(4) as u32 | (rng.below(4) as u32) << 16 };
            header = header.with(at::TRANSFER_TAG, tag).with(at::DATA_SN, rng.below(2) as u32);
            header = header.with(at::BUFFER_OFFSET, 512 * rng.below(3) as u32);
            header.0[1] = if rng.one_in(3) { 0 } else { flag::FINAL };
            data.resize(512 * rng.below(3) as usize, 9);
        }
        opcode::MANAGEMENT => {
            header.0[1] |= rng.below(10) as u8;
            header = header.with(at::REFERENCED_TAG, rng.below(4) as u32);
        }
        opcode::TEXT => {
            let goes_on = rng.one_in(3);
            header = header.with(at::TRANSFER_TAG, if goes_on { 1 } else { NO_TAG });
            let pairs = [("SendTargets", ""), ("SendTargets", "All"), ("X-a", "b")];
            let (key, value) = *rng.pick(&pairs);
            // With 80 the answer does not fit into a unit; the initiator asks for the rest of it without data.
            let count = if goes_on { 0 } else { *rng.pick(&[1, 1, 2, 80]) };
            (0..count).for_each(|_| text::push(&mut data, key, value));
        }
        opcode::NOP_OUT => data.resize(rng.below(2000) as usize, 1),
        _ => {}
    }
    if !immediate && !matches!(kind, opcode::DATA_OUT | opcode::SNACK) {
        *number = number.wrapping_add(1);
    }
    let mut all = [&header.with_data_bytes(data.len()).0[..], &data].concat();
    all.resize(all.len() + padding(data.len()), 0);
    all
}

/// The first byte chooses the terms.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = vec![rng.below(16) as u8];
    let mut number = 1;
    (0..1 + rng.below(16)).for_each(|_| all.extend(unit(rng, &mut number)));
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    match rng.below(4) {
        0 => bytes::mutate(rng, input, other),
        1 => {
            let (at, value) = (1 + rng.index(4 * HEADER_BYTES), rng.any() as u8);
            bytes::overwrite(input, at, &[value]);
        }
        _ => {
            let mut number = 1 + rng.below(8) as u32;
            input.extend(unit(rng, &mut number));
        }
    }
}

/// What the login agrees on.
struct Terms {
    header_digest: bool,
    data_digest: bool,
    initial_r2t: bool,
    immediate: bool,
}

/// Units as they are sent: with digests, if these are agreed on, that are right.
fn dressed(terms: &Terms, mut input: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(first) = input.first_chunk::<HEADER_BYTES>() {
        let header = Header(*first);
        let covered = (HEADER_BYTES + header.ahs_bytes()).min(input.len());
        all.extend(&input[..covered]);
        if terms.header_digest {
            all.extend(crc32c::crc32c(&input[..covered]).to_le_bytes());
        }
        let end = (covered + header.data_bytes() + padding(header.data_bytes())).min(input.len());
        all.extend(&input[covered..end]);
        if terms.data_digest && end > covered {
            all.extend(crc32c::crc32c(&input[covered..end]).to_le_bytes());
        }
        input = &input[end..];
    }
    all.extend(input);
    all
}

fn login(terms: &Terms) -> Vec<u8> {
    let word = |on: bool| if on { "Yes" } else { "No" };
    let most = MOST_RECEIVED.to_string();
    let mut data = Vec::new();
    for (key, value) in [
        ("InitiatorName", "iqn.2026-11.localhost:fuzz"),
        ("TargetName", "iqn.2026-11.localhost.platter:disk"),
        ("HeaderDigest", if terms.header_digest { "CRC32C" } else { "None" }),
        ("DataDigest", if terms.data_digest { "CRC32C" } else { "None" }),
        ("InitialR2T", word(terms.initial_r2t)),
        ("ImmediateData", word(terms.immediate)),
        ("MaxBurstLength", "1024"),
        ("FirstBurstLength", "1024"),
        ("MaxRecvDataSegmentLength", &most),
    ] {
        text::push(&mut data, key, value);
    }
    let header = Header::new(opcode::LOGIN | 0x40, flag::FINAL | 1 << 2 | 3).with(at::CMD_SN, 1);
    let mut all = [&header.with_data_bytes(data.len()).0[..], &data].concat();
    all.resize(all.len() + padding(data.len()), 0);
    all
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some((choice, rest)) = input.split_first() else {
        return Ok(Verdict::Refused("no terms".to_owned()));
    };
    let is = |bit: u8| choice >> bit & 1 != 0;
    let terms = Terms { header_digest: is(0), data_digest: is(3), initial_r2t: is(1), immediate: is(2) };
    let name = format!("platter-fuzz-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let ended: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&ended);
    let mut server = Server::new(1);
    server.set_log(Arc::new(move |event| {
        let mut list = log.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(
            ["refused", "disconnected"]
                .contains(&event.name())
                .then(|| event.why().unwrap_or_default().to_string()),
        );
    }));
    let device = Device::ram(64 << 10).map_err(|error| error.to_string())?;
    let served = Served::new("disk", device).map_err(|error| error.to_string())?;
    server.devices().add(served).map_err(|error| error.to_string())?;
    let mut options = Options::default();
    options.depth = DEPTH;
    options.client_memory_bytes = 32 << 20;
    server
        .start("iscsi", &format!("unix:{}", path.display()), &options)
        .map_err(|error| error.to_string())?;
    let answers = talk(&path, &terms, &rest[..rest.len().min(MOST_SENT)]);
    server.stop(PATIENCE).map_err(|errors| errors.join(", "))?;
    check(&answers.map_err(|error| error.to_string())?, &terms)?;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    match &ended[..] {
        [why] if why.contains("closed the connection") || why.contains("logged out") => Ok(Verdict::Accepted),
        [why] => Ok(Verdict::Refused(why.clone())),
        all => Err(format!("the session has ended {} times: {all:?}", all.len())),
    }
}

/// Sends everything; returns all that comes back.
fn talk(path: &std::path::Path, terms: &Terms, input: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // It fails if the session has ended meanwhile; what was answered is still there.
    let _ = stream.write_all(&[login(terms), dressed(terms, input)].concat());
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match stream.read_to_end(&mut answers) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(answers),
    }
}

/// Whether answers are units whose lengths and numbers are right.
fn check(mut rest: &[u8], terms: &Terms) -> Result<(), String> {
    const KINDS: [u8; 9] = [
        opcode::LOGIN_RESPONSE,
        opcode::NOP_IN,
        opcode::RESPONSE,
        opcode::MANAGEMENT_RESPONSE,
        opcode::TEXT_RESPONSE,
        opcode::DATA_IN,
        opcode::LOGOUT_RESPONSE,
        opcode::R2T,
        opcode::REJECT,
    ];
    let mut most: Option<u32> = None;
    let mut next: Option<u32> = None;
    while !rest.is_empty() {
        let Some(first) = rest.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
        let header = Header(*first);
        let is_login = header.opcode() == opcode::LOGIN_RESPONSE;
        let bytes = header.data_bytes();
        hold(KINDS.contains(&header.opcode()), || {
            format!("a unit of the operation code {:02x}h", header.0[0])
        })?;
        hold(bytes <= MOST_RECEIVED, || format!("a segment of {bytes} bytes"))?;
        let (max, expected) = (header.get(at::MAX_CMD_SN), header.get(at::EXP_CMD_SN));
        let shrinks = most.is_some_and(|most| (max.wrapping_sub(most) as i32) < 0);
        hold(!shrinks, || format!("MaxCmdSN shrinks to {max}"))?;
        hold((max.wrapping_sub(expected) as i32) < DEPTH as i32, || {
            format!("{expected} to {max} are allowed")
        })?;
        most = Some(max);
        let has_status = header.opcode() != opcode::DATA_IN || header.flags() & flag::STATUS != 0;
        if has_status {
            let sn = header.get(at::STAT_SN);
            hold(next.is_none_or(|next| sn == next), || format!("StatSN {sn}, and not {next:?}"))?;
            let counts = header.opcode() != opcode::R2T;
            next = Some(sn.wrapping_add(u32::from(counts)));
        }
        if header.opcode() == opcode::R2T {
            let length = header.get(at::DESIRED_LENGTH);
            hold((1..=1024).contains(&length), || format!("an R2T for {length} bytes"))?;
        }
        let digest = if terms.header_digest && !is_login { DIGEST_BYTES } else { 0 };
        let data_digest = if terms.data_digest && !is_login && bytes > 0 { DIGEST_BYTES } else { 0 };
        rest = rest.get(HEADER_BYTES + digest + bytes + padding(bytes) + data_digest..).unwrap_or_default();
    }
    Ok(())
}
