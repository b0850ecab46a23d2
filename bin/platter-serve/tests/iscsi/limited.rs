//! Commands that wait for the limits of the device.

use crate::initiator::{Initiator, Terms, attach};
use crate::serve_with;
use platter_disk::device::Device;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::export::Options;
use platter_serve::qos::DeviceLimits;
use std::io::Write;
use std::time::Instant;

/// Task management functions.
const ABORT_TASK: u8 = 1;
const LOGICAL_UNIT_RESET: u8 = 5;

fn read() -> Cdb {
    Cdb::new(&cdb::READ_10).with("TRANSFER LENGTH", 1)
}

/// The header of an immediate command, which takes no number.
fn immediate(initiator: &mut Initiator, cdb: &Cdb, expected: u32) -> Header {
    let mut header = initiator.header(cdb.bytes(), expected, false);
    header.0[0] |= 0x40;
    initiator.cmd_sn -= 1;
    header
}

/// While a command waits the server receives nothing, so the function has been received before and was held back by a
/// unit that there was no room for: here a third command, because the first two have taken all slots. There is room when the
/// first one is answered, which gives its place in the device to the command that waits.
#[test]
fn a_command_that_is_taken_back_while_it_waits_holds_nothing_up() {
    for function in [ABORT_TASK, LOGICAL_UNIT_RESET] {
        let mut options = Options::default();
        options.depth = 1;
        let fixture = serve_with(Device::ram(1 << 20).unwrap(), &options);
        let server = fixture.server.as_ref().unwrap();
        let served = server.devices().find("disk").unwrap();
        served.qos().set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
        let mut initiator = attach(&fixture.address, &Terms::default());
        let ready = Cdb::new(&cdb::TEST_UNIT_READY);
        let first = immediate(&mut initiator, &read(), 512);
        let write = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
        let waiting = initiator.header(write.bytes(), 512, true).with_data_bytes(512);
        let third = immediate(&mut initiator, &ready, 0);
        let tag = initiator.tag();
        let management = Header::new(opcode::MANAGEMENT | 0x40, flag::FINAL | function)
            .with(at::TASK_TAG, tag)
            .with(at::REFERENCED_TAG, waiting.task_tag())
            .with(at::CMD_SN, initiator.cmd_sn);
        // With one call, so that all is received before the write asks.
        let units = [&first.0[..], &waiting.0, &[7; 512], &third.0, &management.0].concat();
        initiator.stream.write_all(&units).unwrap();

        assert_eq!(initiator.answer(first.task_tag(), &[]).unwrap().data, [0; 512]);
        let (refused, _) = initiator.receive().unwrap();
        assert_eq!((refused.opcode(), refused.0[2]), (opcode::REJECT, 6), "too many immediate commands");
        assert_eq!(initiator.managed(tag), 0);
        // After a reset, this one is told of it.
        initiator.command(&ready, 0, &[]).unwrap();
        assert_eq!(initiator.command(&read(), 512, &[]).unwrap().data, [0; 512], "nothing was written");
        let mut other = attach(&fixture.address, &Terms { isid: 2, ..Terms::default() });
        assert_eq!(other.command(&ready, 0, &[]).unwrap().status, 0);
        let clients = server.clients().list();
        let unanswered: Vec<_> = clients.iter().map(|client| client.oldest(Instant::now())).collect();
        assert_eq!(unanswered, [None, None]);
    }
}
