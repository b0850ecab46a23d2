use super::*;
use crate::{Access, open};
use command::Command;

fn controller(spec: &str) -> DeviceController {
    DeviceController::new(open(spec, Access::read_write()).unwrap())
}

fn on(command: &'static Command, slba: u64, blocks: u64) -> Entry {
    Entry::new(command).with("nsid", 1).with("slba", slba).with("nlb", blocks - 1)
}

#[test]
fn counters_that_threads_advance_by_fused_commands_lose_no_step() {
    const STEPS: u64 = 200;
    let controller = controller("ram(64K)");
    let advance = || {
        for _ in 0..STEPS {
            loop {
                let now = controller.execute(&on(&command::READ, 3, 1), &[]).data_in;
                let count = u64::from_le_bytes(now[..8].try_into().unwrap());
                let mut next = now.clone();
                next[..8].copy_from_slice(&(count + 1).to_le_bytes());
                let pair =
                    [on(&command::COMPARE, 3, 1).with("fuse", 1), on(&command::WRITE, 3, 1).with("fuse", 2)];
                let [compared, written] = controller.execute_fused(&pair, &[now, next].concat());
                if written.status.is_success() {
                    assert!(compared.status.is_success());
                    break;
                }
                assert_eq!(
                    (compared.status, written.status),
                    (Status::COMPARE_FAILURE, Status::FAILED_FUSED)
                );
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(advance)));
    let read = controller.execute(&on(&command::READ, 3, 1), &[]).data_in;
    assert_eq!(u64::from_le_bytes(read[..8].try_into().unwrap()), 3 * STEPS);
}

#[test]
fn a_bad_sector_is_a_read_error_at_its_block() {
    let controller = controller("error(offset=64K, length=4K, op=read, ram(1M))");
    let read = controller.execute(&on(&command::READ, 120, 16), &[]);
    assert_eq!((read.status, read.data_in.len()), (Status::READ_ERROR, 8 * 512));
    let log = Entry::new(&command::GET_LOG_PAGE).with("lid", 1).with("numdl", 15);
    let errors = controller.execute(&log, &[]).data_in;
    assert_eq!(log::ERRORS.decode(&errors).items()[0].get("lba"), Some(128));
}

#[test]
fn a_formatted_namespace_reads_as_zeroes() {
    let controller = controller("ram(1M)");
    assert!(controller.execute(&on(&command::WRITE, 2000, 2), &[9; 1024]).status.is_success());
    let format = Entry::new(&command::FORMAT_NVM).with("nsid", 1).with("ses", 1);
    assert!(controller.execute(&format, &[]).status.is_success());
    assert_eq!(controller.execute(&on(&command::READ, 2000, 2), &[]).data_in, [0; 1024]);
    let other = format.with("lbafl", 1);
    assert_eq!(controller.execute(&other, &[]).status, Status::INVALID_FORMAT);
}

#[test]
fn an_event_request_does_not_wait() {
    let controller = controller("ram(1M)");
    let request = Entry::new(&command::ASYNCHRONOUS_EVENT_REQUEST);
    for _ in 0..10 {
        assert_eq!(controller.execute(&request, &[]).status, Status::ABORT_REQUESTED);
    }
}

#[test]
fn a_grown_file_has_more_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let controller = controller(path.to_str().unwrap());
    let size = || {
        let identify = Entry::new(&command::IDENTIFY).with("cns", 0).with("nsid", 1);
        let data = controller.execute(&identify, &[]).data_in;
        let namespace = identify::NAMESPACE.decode(&data);
        namespace.get("nsze").unwrap() * identify::block_len(&data).unwrap()
    };
    assert_eq!(size(), 1 << 20);
    file.set_len(2 << 20).unwrap();
    controller.device.refresh().unwrap();
    assert_eq!(size(), 2 << 20);
    let request = Entry::new(&command::ASYNCHRONOUS_EVENT_REQUEST);
    assert_eq!(controller.execute(&request, &[]).result, 0x0004_0002);
}
