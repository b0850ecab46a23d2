//! A controller over a model of a device with a volatile write cache.

use super::*;
use crate::command;
use crate::data;
use crate::identify::{self, cns};
use crate::log::{self, lid};
use crate::structure::Decoded;
use alloc::vec;
use platter_block::limits::Limits;

mod life;

const BLOCK: usize = 512;
const BLOCKS: usize = 64;

fn limits() -> Limits {
    Limits::unlimited(BLOCK as u32)
        .with_discard_granularity(4 * BLOCK as u32)
        .with_write_zeroes(true)
        .with_chunk(16 * BLOCK as u64)
}

fn controller(limits: Limits) -> Controller {
    let identity = Identity {
        serial: "serial".into(),
        model: "TEST".into(),
        firmware: "0.1.0".into(),
        subsystem: "nqn.2026-11.localhost.test:serial".into(),
    };
    let mut geometry = Geometry::new((BLOCKS * BLOCK) as u64, limits);
    geometry.features = geometry.features.with_write_cache(true);
    Controller::new(identity, geometry)
}

/// A device: what it returns, and what a power cut leaves.
struct Medium {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Reads and writes of this block fail.
    bad: Option<usize>,
}

impl Medium {
    fn new() -> Medium {
        Medium { bytes: vec![0; BLOCKS * BLOCK], durable: vec![0; BLOCKS * BLOCK], bad: None }
    }

    fn step(&mut self, step: &Step, data_out: &[u8], data_in: &mut Vec<u8>) -> Result<(), StepError> {
        let range = step.pos as usize..(step.pos + step.len) as usize;
        if let Some(bad) =
            self.bad.filter(|bad| range.contains(&(bad * BLOCK)) && step.action != Action::Flush)
        {
            return Err(StepError::Device { kind: Kind::Io, pos: (bad * BLOCK) as u64 });
        }
        let part = &mut self.bytes[range.clone()];
        match step.action {
            Action::Read { at } => {
                data_in.truncate(at as usize);
                data_in.extend_from_slice(part);
            }
            Action::Compare { at } => {
                let wanted = &data_out[at as usize..];
                if let Some(n) = (0..part.len()).find(|n| part[*n] != wanted[*n]) {
                    return Err(StepError::Miscompare { at: at + n as u64 });
                }
            }
            Action::Write { at, fua } => {
                part.copy_from_slice(&data_out[at as usize..][..part.len()]);
                if fua {
                    self.durable[range].copy_from_slice(part);
                }
            }
            Action::WriteZeroes => part.fill(0),
            Action::Discard => part.fill(0xdd),
            Action::Flush => self.durable.copy_from_slice(&self.bytes),
            Action::Verify => {}
            Action::Fill { .. } => unreachable!("no NVMe command fills"),
        }
        Ok(())
    }

    fn run(&mut self, controller: &mut Controller, entry: &Entry, data_out: &[u8]) -> Response {
        let steps = match controller.plan(entry, data_out) {
            Plan::Done(response) => return response,
            Plan::Waits => unreachable!("{entry:?} waits"),
            Plan::Steps(steps) => steps,
        };
        let mut data_in = Vec::new();
        for step in &steps {
            if let Err(error) = self.step(step, data_out, &mut data_in) {
                return controller.failed(entry, step, error);
            }
        }
        Response { data_in, ..controller.done(entry) }
    }

    fn run_fused(
        &mut self,
        controller: &mut Controller,
        pair: &[Entry; 2],
        data_out: &[u8],
    ) -> [Response; 2] {
        let steps = match controller.plan_fused(pair, data_out) {
            FusedPlan::Done(responses) => return responses,
            FusedPlan::Steps(steps) => steps,
        };
        for step in &steps {
            if let Err(error) = self.step(step, data_out, &mut Vec::new()) {
                return controller.fused_failed(pair, step, error);
            }
        }
        controller.fused_done(pair)
    }
}

fn on(command: &'static Command, slba: u64, blocks: u64) -> Entry {
    Entry::new(command).with("nsid", 1).with("slba", slba).with("nlb", blocks - 1)
}

fn identify(controller: &mut Controller, value: u8, nsid: u64) -> Response {
    let entry = Entry::new(&command::IDENTIFY).with("cns", value.into()).with("nsid", nsid);
    Medium::new().run(controller, &entry, &[])
}

fn log_page(controller: &mut Controller, lid: u8, bytes: u64) -> Response {
    let entry = Entry::new(&command::GET_LOG_PAGE).with("lid", lid.into()).with("numdl", bytes / 4 - 1);
    Medium::new().run(controller, &entry, &[])
}

fn feature(command: &'static Command, fid: u64, value: u64) -> Entry {
    Entry::new(command).with("nsid", 1).with("fid", fid).with("cdw11", value)
}

#[test]
fn identify_tells_the_limits_of_the_device() {
    let mut controller = controller(limits()).with_max_transfer(100 << 10);
    let data = identify(&mut controller, cns::CONTROLLER, 0).data_in;
    let decoded = identify::CONTROLLER.decode(&data);
    let get = |name| decoded.get(name).unwrap();
    assert_eq!((get("mdts"), get("nn"), get("fuses"), get("vwc")), (4, 1, 1, 7));
    // Compare, Dataset Management, Write Zeroes, SEL, Verify.
    assert_eq!((get("oncs"), get("oacs")), (0b1001_1101, 2));
    let data = identify(&mut controller, cns::NAMESPACE, 1).data_in;
    let namespace = identify::NAMESPACE.decode(&data);
    let get = |name| namespace.get(name).unwrap();
    assert_eq!((get("nsze"), get("nuse"), get("noiob"), get("npdg")), (64, 64, 16, 3));
    assert_eq!(namespace.items()[0].get("lbads"), Some(9));
    let poor =
        Limits::unlimited(4096).with_chunk(1 << 30).with_write_zeroes(false).with_discard_granularity(0);
    let mut controller = super::tests::controller(poor);
    let data = identify(&mut controller, cns::CONTROLLER, 0).data_in;
    assert_eq!(identify::CONTROLLER.decode(&data).get("oncs"), Some(0b1001_0001));
    let data = identify(&mut controller, cns::NAMESPACE, 1).data_in;
    assert_eq!(identify::NAMESPACE.decode(&data).get("noiob"), Some(0));
    for command in [&command::WRITE_ZEROES, &command::DATASET_MANAGEMENT] {
        let entry = Entry::new(command).with("nsid", 1);
        assert_eq!(Medium::new().run(&mut controller, &entry, &[0; 16]).status, Status::INVALID_OPCODE);
    }
}

#[test]
fn namespaces_are_listed_and_described() {
    let mut controller = controller(limits());
    let ids = |response: &Response| {
        identify::NAMESPACE_LIST
            .decode(&response.data_in)
            .items()
            .iter()
            .map(|id| id.get("nsid"))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&identify(&mut controller, cns::ACTIVE_NAMESPACES, 0)), [Some(1)]);
    assert_eq!(ids(&identify(&mut controller, cns::ACTIVE_NAMESPACES, 1)), []);
    assert_eq!(
        identify(&mut controller, cns::ACTIVE_NAMESPACES, 0xffff_fffe).status,
        Status::INVALID_NAMESPACE
    );
    assert_eq!(identify(&mut controller, cns::NAMESPACE, 2).status, Status::INVALID_NAMESPACE);
    assert_eq!(identify(&mut controller, 0x7f, 1).status, Status::INVALID_FIELD);
    let data = identify(&mut controller, cns::DESCRIPTORS, 1).data_in;
    let kinds: Vec<_> =
        identify::DESCRIPTORS.decode(&data).items().iter().map(|item| item.get("nidt")).collect();
    assert_eq!(kinds, [Some(3), Some(4)]);
    // The version and the variant of the UUID.
    assert_eq!((data[10] >> 4, data[12] >> 6), (8, 2));
}

#[test]
fn a_failed_command_is_in_the_log_of_errors_with_the_field_that_was_wrong() {
    let mut controller = controller(limits());
    let mut medium = Medium::new();
    let past = on(&command::READ, 60, 8).with("cid", 77);
    assert_eq!(medium.run(&mut controller, &past, &[]).status, Status::LBA_OUT_OF_RANGE);
    medium.bad = Some(5);
    assert_eq!(medium.run(&mut controller, &on(&command::VERIFY, 0, 16), &[]).status, Status::READ_ERROR);
    let data = log_page(&mut controller, lid::ERRORS, 4096).data_in;
    let errors = log::ERRORS.decode(&data).items();
    let get = |n: usize, name| errors[n].get(name).unwrap();
    assert_eq!((get(0, "error_count"), get(0, "status_field"), get(0, "lba")), (2, 0x281, 5));
    assert_eq!((get(1, "cmdid"), get(1, "status_field"), get(1, "lba"), get(1, "sqid")), (77, 0x4080, 60, 1));
    // SLBA begins in byte 40; the other error is not of a parameter.
    assert_eq!((get(1, "parm_error_location"), get(0, "parm_error_location")), (40, 0xffff));
    assert_eq!(get(2, "error_count"), 0);
    let data = log_page(&mut controller, lid::SMART, 512).data_in;
    let smart = log::SMART.decode(&data);
    let wide = |name| crate::layout::find(log::SMART.fields, name).unwrap().wide(smart.bytes()).unwrap();
    assert_eq!((wide("media_errors"), wide("num_err_log_entries"), wide("host_read_commands")), (1, 2, 0));
}

#[test]
fn counters_of_the_smart_log_are_thousands_of_512_bytes() {
    let mut controller = controller(limits());
    let mut medium = Medium::new();
    let wide = |controller: &mut Controller, name| {
        let data = log_page(controller, lid::SMART, 512).data_in;
        crate::layout::find(log::SMART.fields, name).unwrap().wide(&data).unwrap()
    };
    for _ in 0..32 {
        medium.run(&mut controller, &on(&command::WRITE, 0, 32), &[1; 32 * BLOCK]);
    }
    // 1024 blocks are two units, rounded up. Zeroes are not counted.
    medium.run(&mut controller, &on(&command::WRITE_ZEROES, 0, 32), &[]);
    assert_eq!(
        (wide(&mut controller, "data_units_written"), wide(&mut controller, "host_write_commands")),
        (2, 32)
    );
    medium.run(&mut controller, &on(&command::READ, 0, 1), &[]);
    assert_eq!(
        (wide(&mut controller, "data_units_read"), wide(&mut controller, "host_read_commands")),
        (1, 1)
    );
}

#[test]
fn log_pages_are_read_in_parts() {
    let mut controller = controller(limits());
    let whole = log_page(&mut controller, lid::EFFECTS, 4096).data_in;
    let read = |controller: &mut Controller, offset, bytes: u64| {
        let entry = Entry::new(&command::GET_LOG_PAGE).with("lid", lid::EFFECTS.into()).with("lpo", offset);
        Medium::new().run(controller, &entry.with("numdl", bytes / 4 - 1), &[])
    };
    assert_eq!(read(&mut controller, 1024, 512).data_in, whole[1024..][..512]);
    let end = read(&mut controller, 4092, 8).data_in;
    assert_eq!((&end[..4], &end[4..]), (&whole[4092..], &[0; 4][..]));
    assert_eq!(read(&mut controller, 2, 8).status, Status::INVALID_FIELD);
    assert_eq!(read(&mut controller, 5000, 8).status, Status::INVALID_FIELD);
    assert_eq!(log_page(&mut controller, 0x70, 8).status, Status::INVALID_LOG_PAGE);
    // Each supported command, and no other, is in the page.
    let decoded = log::EFFECTS.decode(&whole);
    let supported: Vec<_> = decoded.items().iter().map(|effect| effect.get("csupp").unwrap()).collect();
    assert_eq!(supported.iter().sum::<u64>() as usize, Controller::commands().count());
    assert_eq!((supported[0x06], supported[256 + 0x02], supported[256 + 0x0d]), (1, 1, 0));
}

#[test]
fn features_have_a_current_and_a_first_value() {
    let mut controller = controller(limits());
    let mut medium = Medium::new();
    let (get, set) = (&command::GET_FEATURES, &command::SET_FEATURES);
    let mut run = |entry: Entry| medium.run(&mut controller, &entry, &[]);
    assert_eq!(run(feature(get, 6, 0)).result, 1);
    assert_eq!(run(feature(set, 6, 0)).status, Status::SUCCESS);
    assert_eq!((run(feature(get, 6, 0)).result, run(feature(get, 6, 0).with("sel", 1)).result), (0, 1));
    assert_eq!(run(feature(get, 6, 0).with("sel", 3)).result, 4);
    assert_eq!(run(feature(set, 6, 2)).status, Status::INVALID_FIELD);
    assert_eq!(run(feature(set, 6, 1).with("sv", 1)).status, Status::NOT_SAVEABLE);
    assert_eq!(run(feature(get, 0x7f, 0)).status, Status::INVALID_FIELD);
    assert_eq!(run(feature(set, 7, 0x0001_00ff)).result, 0x0001_003f);
    assert_eq!(run(feature(get, 7, 0)).result, 0x0001_003f);
    assert_eq!(run(feature(set, 0x84, 1).with("nsid", 2)).status, Status::INVALID_NAMESPACE);
}

#[test]
fn a_change_of_size_completes_a_waiting_event_request() {
    let mut controller = controller(limits());
    let request = Entry::new(&command::ASYNCHRONOUS_EVENT_REQUEST);
    for _ in 0..4 {
        assert_eq!(controller.plan(&request, &[]), Plan::Waits);
    }
    let fifth = controller.plan(&request, &[]);
    assert_eq!(fifth, Plan::Done(Response::of(Status::EVENT_LIMIT)));
    assert_eq!(controller.event(), None);
    let grown = controller.geometry().with_size(2 << 20);
    controller.set_geometry(grown);
    // Type 2, information 0, log page 04h.
    assert_eq!(controller.event().map(|event| event.result), Some(0x0004_0002));
    assert_eq!(controller.event(), None);
    let list = log_page(&mut controller, 4, 4096).data_in;
    assert_eq!(identify::NAMESPACE_LIST.decode(&list).items().len(), 1);
    let list = log_page(&mut controller, 4, 4096).data_in;
    assert_eq!(identify::NAMESPACE_LIST.decode(&list).items().len(), 0);
    assert_eq!(controller.cancel_events(), 3);
}

#[test]
fn one_half_of_a_fused_operation_is_not_carried_out() {
    let mut controller = controller(limits());
    let mut medium = Medium::new();
    let half = on(&command::WRITE, 0, 1).with("fuse", 2);
    assert_eq!(medium.run(&mut controller, &half, &[1; BLOCK]).status, Status::MISSING_FUSED);
    assert_eq!(medium.bytes[..BLOCK], [0; BLOCK]);
    let first = on(&command::COMPARE, 0, 1).with("fuse", 1);
    for second in [on(&command::WRITE, 1, 1), on(&command::WRITE, 0, 2), on(&command::VERIFY, 0, 1)] {
        let pair = [first, second.with("fuse", 2)];
        let statuses =
            medium.run_fused(&mut controller, &pair, &[0; 4 * BLOCK]).map(|response| response.status);
        assert_eq!(statuses[0], Status::FAILED_FUSED);
        assert!(!statuses[1].is_success(), "{}", statuses[1]);
    }
    assert!(is_exclusive(&first) && !is_exclusive(&on(&command::WRITE, 0, 1)));
}

#[test]
fn ranges_without_data_and_outside_are_refused() {
    let mut controller = controller(limits());
    let mut medium = Medium::new();
    let deallocate = |ranges: u64| {
        Entry::new(&command::DATASET_MANAGEMENT).with("nsid", 1).with("nr", ranges - 1).with("ad", 1)
    };
    medium.bytes.fill(7);
    let data = data::ranges([(1, 6), (60, 4)]);
    assert_eq!(medium.run(&mut controller, &deallocate(3), &data).status, Status::DATA_TRANSFER_ERROR);
    let past = data::ranges([(0, 8), (61, 4)]);
    assert_eq!(medium.run(&mut controller, &deallocate(2), &past).status, Status::LBA_OUT_OF_RANGE);
    assert!(medium.bytes.iter().all(|byte| *byte == 7));
    assert_eq!(medium.run(&mut controller, &deallocate(2), &data).status, Status::SUCCESS);
    // Of blocks 1 to 6 no whole unit of four is left but none; of 60 to 63 one.
    let gone: Vec<usize> = (0..BLOCKS).filter(|n| medium.bytes[n * BLOCK] == 0xdd).collect();
    assert_eq!(gone, [60, 61, 62, 63]);
    let hint = Entry::new(&command::DATASET_MANAGEMENT).with("nsid", 1).with("idr", 1);
    assert_eq!(medium.run(&mut controller, &hint, &data::ranges([(0, 8)])).status, Status::SUCCESS);
    assert_eq!(medium.bytes[0], 7);
}

/// The structures that a controller returns decode to what it was built with.
#[test]
fn names_are_cut_to_their_fields() {
    let mut controller = controller(limits());
    controller.identity.serial = "a serial number of more than twenty bytes".into();
    let data = identify(&mut controller, cns::CONTROLLER, 0).data_in;
    let decoded: Decoded<'_> = identify::CONTROLLER.decode(&data);
    let text = |name| decoded.fields().find(|(field, _)| *field == name).map(|(_, value)| value);
    assert_eq!(text("sn"), Some(crate::structure::Value::Text("a serial number of m".into())));
    assert_eq!(text("mn"), Some(crate::structure::Value::Text("TEST".into())));
}
