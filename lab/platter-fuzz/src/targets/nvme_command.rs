//! Commands to an NVMe controller.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::driver::Geometry;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_nvme::command::{self, ENTRY, Entry, Queue};
use platter_nvme::controller::{
    Action, Controller, FusedPlan, Identity, MAX_TRANSFER, Plan, Response, Step, StepError,
};
use platter_nvme::data;

pub(super) const TARGET: Target = Target {
    name: "nvme-command",
    summary: "NVMe commands with their data, to a controller",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// Bytes before the data: what chooses the device and the queue, and two entries, of which the second counts for a fused pair.
const HEAD: usize = 2 + 2 * ENTRY;

fn entry(rng: &mut Rng, fuse: u64) -> Entry {
    let count = Controller::commands().count();
    let command = match rng.one_in(8) {
        true => command::TABLE[rng.index(command::TABLE.len())],
        false => Controller::commands().nth(rng.index(count)).unwrap_or(&command::READ),
    };
    let command = if fuse != 0 && !rng.one_in(4) {
        [&command::COMPARE, &command::WRITE][fuse as usize - 1]
    } else {
        command
    };
    let mut entry = Entry::new(command);
    for field in command.fields {
        let value = match rng.below(4) {
            0 | 1 => 0,
            2 => rng.below(16),
            _ => rng.extreme(u32::from(field.bits).min(64)),
        };
        // A field that is larger than it may be stays 0.
        let _ = entry.set(field.name, value);
    }
    let nsid = if rng.one_in(8) { rng.extreme(32) } else { 1 };
    let _ = entry.set("nsid", nsid);
    let _ = entry.set("fuse", fuse);
    if rng.one_in(2) {
        // Identifiers that exist.
        let _ = entry.set("lid", rng.below(6));
        let _ = entry.set("cns", rng.below(9));
        let _ = entry.set("fid", *rng.pick(&[1, 2, 4, 5, 6, 7, 10, 11, 0x84]));
    }
    entry
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let fused = rng.one_in(4);
    let first = entry(rng, u64::from(fused));
    let mut second = entry(rng, if fused { 2 } else { 0 });
    if fused && !rng.one_in(4) {
        let _ = second.set("slba", first.get("slba").unwrap_or(0));
        let _ = second.set("nlb", first.get("nlb").unwrap_or(0));
    }
    let queue = match first.command().queue {
        Queue::Admin => 0,
        Queue::Io => 1,
    };
    let mut all = vec![rng.any() as u8, queue | if fused { 2 } else { 0 }];
    all.extend(first.bytes());
    all.extend(second.bytes());
    let ranges: Vec<_> = (0..rng.below(4)).map(|_| (rng.extreme(40), rng.extreme(12) as u32)).collect();
    all.extend(data::ranges(ranges));
    if rng.one_in(2) {
        all.resize(all.len() + rng.index(9000), rng.any() as u8);
    }
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if input.len() < HEAD || rng.one_in(4) {
        return bytes::mutate(rng, input, other);
    }
    match rng.below(4) {
        0 => bytes::overwrite(input, 2 + 40, &rng.extreme(64).to_le_bytes()),
        1 => bytes::overwrite(input, 2 + 48, &(rng.extreme(16) as u16).to_le_bytes()),
        2 => input.truncate(HEAD + rng.index(64)),
        _ => input[rng.index(HEAD)] = rng.any() as u8,
    }
}

/// Sizes of the devices that an input chooses from.
const SIZES: [u64; 4] = [1 << 20, 1000 * 512, (1 << 41) + 4096, 0];

fn controller(choice: u8) -> Controller {
    let is = |bit: u8| choice >> bit & 1 != 0;
    let block = if is(0) { 512 } else { 4096 };
    let limits = Limits::unlimited(block)
        .with_discard_granularity(if is(1) { block * 8 } else { 0 })
        .with_write_zeroes(is(2))
        .with_chunk(if is(3) { 1 << 20 } else { 0 });
    let mut geometry = Geometry::new(SIZES[usize::from(choice >> 6)], limits);
    geometry.features = geometry.features.with_read_only(choice & 0x30 == 0x30).with_write_cache(is(4));
    let identity = Identity {
        serial: "\u{1b}[0m".repeat(usize::from(choice)),
        model: "FUZZ".to_owned(),
        firmware: "1".to_owned(),
        subsystem: "nqn.2026-11.localhost:fuzz".to_owned(),
    };
    Controller::new(identity, geometry)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some(([choice, kind], rest)) = input.split_first_chunk::<2>() else {
        return Ok(Verdict::Refused("no device".to_owned()));
    };
    let queue = if kind & 1 == 0 { Queue::Admin } else { Queue::Io };
    let mut controller = controller(*choice);
    let size = SIZES[usize::from(choice >> 6)];
    let (first, rest) = rest.split_at(rest.len().min(ENTRY));
    let first = match Entry::decode(queue, first) {
        Ok(entry) => entry,
        Err(error) => return Ok(Verdict::Refused(error.to_string())),
    };
    let (second, data_out) = rest.split_at(rest.len().min(ENTRY));
    if kind & 2 != 0
        && let Ok(second) = Entry::decode(queue, second)
    {
        return fused(&mut controller, &[first, second], data_out, size);
    }
    match controller.plan(&first, data_out) {
        Plan::Steps(steps) => {
            steps.iter().try_for_each(|step| inside(step, size, data_out.len() as u64))?;
            let step = steps.first().ok_or("a command without steps")?;
            let failed = controller.failed(&first, step, StepError::Device { kind: Kind::Io, pos: step.pos });
            hold(!failed.status.is_success(), || "a step that fails is a success".to_owned())?;
            hold(controller.done(&first).status.is_success(), || "steps without a failure fail".to_owned())?;
            Ok(Verdict::Accepted)
        }
        Plan::Waits => {
            hold(controller.cancel_events() == 1, || "nothing waits".to_owned()).map(|()| Verdict::Accepted)
        }
        Plan::Done(response) => answered(&response, &first),
    }
}

fn fused(
    controller: &mut Controller,
    pair: &[Entry; 2],
    data_out: &[u8],
    size: u64,
) -> Result<Verdict, String> {
    match controller.plan_fused(pair, data_out) {
        FusedPlan::Steps(steps) => {
            steps.iter().try_for_each(|step| inside(step, size, data_out.len() as u64))?;
            let statuses = controller.fused_done(pair).map(|response| response.status);
            hold(statuses.iter().all(|status| status.is_success()), || format!("{statuses:?}"))?;
            Ok(Verdict::Accepted)
        }
        FusedPlan::Done(responses) => {
            let fails = responses.iter().all(|response| !response.status.is_success());
            hold(fails, || "half of a fused operation succeeds without steps".to_owned())?;
            Ok(Verdict::Refused(responses[0].status.to_string()))
        }
    }
}

fn inside(step: &Step, size: u64, data_out: u64) -> Result<(), String> {
    let used = match step.action {
        Action::Write { at, .. } | Action::Compare { at } => at.checked_add(step.len),
        _ => Some(0),
    };
    let ends = step.pos.checked_add(step.len).is_some_and(|end| end <= size);
    let moves = matches!(step.action, Action::Read { .. } | Action::Write { .. } | Action::Compare { .. });
    hold(ends && used.is_some_and(|end| end <= data_out) && (!moves || step.len <= MAX_TRANSFER), || {
        format!("{step:?} on a device of {size} bytes, with {data_out} bytes of data")
    })
}

fn answered(response: &Response, entry: &Entry) -> Result<Verdict, String> {
    let len = response.data_in.len() as u64;
    if response.status.is_success() {
        let wanted = if entry.direction().name() == "in" { entry.data_len(512) } else { Some(0) };
        hold(wanted.is_none_or(|wanted| wanted == len) || len == 0 && wanted == Some(0), || {
            format!("{len} bytes for {}", entry.command().name)
        })?;
        return Ok(Verdict::Accepted);
    }
    hold(len == 0, || format!("{len} bytes with a failure"))?;
    Ok(Verdict::Refused(response.status.to_string()))
}
