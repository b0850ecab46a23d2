//! Files that change under the device, and file systems that are full.

use crate::callers::Style;
use crate::kinds::{SIZE, elevators, on_files, open};
use crate::memory::{aligned, bytes, fill};
use platter_block::bio::Op;
use platter_block::fault::Kind;
use platter_disk::drivers::FileDriver;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Another program truncates the file. Data beyond the new end cannot be read, even if the file has become longer
/// again; nothing here makes it longer; and no flush succeeds until the program acknowledges the change.
#[test]
fn beyond_the_end_of_a_file_that_shrank_nothing_works() {
    on_files(&["none", "deadline"], |name, device, file| {
        for style in Style::ALL {
            let mut caller = style.caller(device);
            file.as_file().set_len(SIZE / 2).unwrap();
            let over_the_end = caller.read(SIZE / 2 - 4096, aligned(8192)).0;
            assert_eq!(over_the_end.unwrap_err().kind, Kind::Short, "{name} {style:?}");
            for pos in [SIZE - 4096, SIZE / 2 + 65536, SIZE / 2] {
                let (read, write) = (caller.read(pos, aligned(4096)).0, caller.write(pos, aligned(4096)).0);
                let kinds = (read.unwrap_err().kind, write.unwrap_err().kind);
                assert_eq!(kinds, (Kind::Gone, Kind::Gone), "{name} {style:?} {pos}");
            }
            assert_eq!(file.as_file().metadata().unwrap().len(), SIZE / 2, "{name} {style:?}");
            let flushed = caller.operate(Op::Flush, 0, 0);
            assert!(flushed.is_err(), "{name} {style:?}");
            let mut memory = aligned(4096);
            fill(&mut memory, |at| at as u8);
            assert_eq!(caller.write(SIZE / 2 - 4096, memory).0, Ok(()), "{name} {style:?}");
            let (result, memory) = caller.read(SIZE / 2 - 4096, aligned(4096));
            assert_eq!(result, Ok(()), "{name} {style:?}");
            assert!(bytes(&memory.unwrap()).iter().enumerate().all(|(at, byte)| *byte == at as u8));
            file.as_file().set_len(SIZE).unwrap();
            device.acknowledge_flush_failure();
            assert!(caller.operate(Op::Flush, 0, 0).is_err(), "{name} {style:?}");
            let lost = caller.read(SIZE - 4096, aligned(4096)).0;
            assert_eq!(lost.unwrap_err().kind, Kind::Gone, "{name} {style:?}");
            device.refresh().unwrap();
            device.acknowledge_flush_failure();
            assert_eq!(device.size(), SIZE);
            assert_eq!(caller.read(SIZE - 4096, aligned(4096)).0, Ok(()), "{name} {style:?}");
            assert_eq!(caller.operate(Op::Flush, 0, 0), Ok(()), "{name} {style:?}");
        }
    });
}

/// Another program cuts the file inside a block. What is left of that block is read and written as in a file that had this size
/// when it was opened, before the program here accepts the size and afterwards.
#[test]
fn what_is_left_of_a_block_in_which_a_file_was_cut_can_be_used() {
    const CUT: u64 = 3 * 4096;
    const END: u64 = CUT + 777;
    on_files(&["none", "deadline"], |name, device, file| {
        device.write_at(&[7; 4 * 4096], 0).unwrap();
        file.as_file().set_len(END).unwrap();
        let over_the_end = device.read_at(&mut [0; 8192], CUT - 4096).unwrap_err();
        assert_eq!((over_the_end.fault.kind, device.size()), (Kind::Short, END), "{name}");
        let mut before = 7;
        for (is_accepted, byte) in [(false, 8u8), (true, 9)] {
            if is_accepted {
                device.refresh().unwrap();
            }
            let (mut both, mut last) = ([0; 4096 + 777], [0; 777]);
            device.read_at(&mut both, CUT - 4096).unwrap();
            let (whole, part) = both.split_at(4096);
            assert!(whole.iter().all(|found| *found == 7), "{name} {is_accepted}");
            assert!(part.iter().all(|found| *found == before), "{name} {is_accepted}");
            device.write_at(&[byte; 777], CUT).unwrap();
            device.read_at(&mut last, CUT).unwrap();
            assert_eq!(last, [byte; 777], "{name} {is_accepted}");
            before = byte;
        }
        device.flush().unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), END, "{name}");
    });
}

/// A write that reaches the end of the device restores the size of a truncated file, so a later flush would see
/// nothing. The size is therefore checked before each such write.
#[test]
fn a_write_of_the_last_block_does_not_hide_that_the_file_shrank() {
    on_files(&["none"], |name, device, file| {
        device.write_at(&[1; 4096], SIZE - 4096).unwrap();
        device.flush().unwrap();
        file.as_file().set_len(4096).unwrap();
        let hidden = device.write_at(&[2; 4096], SIZE - 4096);
        assert_eq!(hidden.unwrap_err().fault.kind, Kind::Gone, "{name}");
        assert!(device.flush().is_err(), "{name}");
        assert_eq!(file.as_file().metadata().unwrap().len(), 4096, "{name}");
    });
}

#[test]
fn a_file_that_grew_is_a_larger_device_once_that_is_noticed() {
    on_files(&["none", "deadline"], |name, device, file| {
        // Also to an end that direct I/O cannot reach.
        let size = 2 * SIZE + 100;
        file.as_file().set_len(size).unwrap();
        let past_the_end = device.read_at(&mut [0; 4096], SIZE).unwrap_err();
        assert_eq!((past_the_end.fault.kind, device.size()), (Kind::OutOfRange, SIZE), "{name}");
        device.flush().unwrap();
        assert_eq!(device.size(), size, "{name}");
        device.write_at(&[1; 5000], size - 5000).unwrap();
        let mut back = [0; 5000];
        device.read_at(&mut back, size - 5000).unwrap();
        assert_eq!(back, [1; 5000], "{name}");
        device.flush().unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), size, "{name}");
    });
}

/// A small file system in memory, unmounted when dropped.
struct Mount(PathBuf);

fn run(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Mount {
    fn at(dir: &Path) -> Option<Mount> {
        let path = dir.to_str().unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=1M", "platter-test", path]).then(|| Mount(dir.into()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_full_file_system_is_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::at(dir.path()) else {
        eprintln!("skipped a_full_file_system_is_no_space: no small file system (needs root)");
        return;
    };
    for driver in FileDriver::ALL {
        for elevator in elevators() {
            let path = dir.path().join("disk.img");
            std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
            let Some(device) = open(&path, driver, elevator) else { continue };
            for style in Style::ALL {
                let mut caller = style.caller(&device);
                let results: Vec<_> =
                    (0..16).map(|i| caller.write(i << 18, aligned(1 << 18)).0.map_err(|f| f.kind)).collect();
                assert!(results.contains(&Err(Kind::NoSpace)), "{driver} {elevator} {style:?} {results:?}");
                assert!(results.iter().all(|r| r.is_ok() || *r == Err(Kind::NoSpace)), "{results:?}");
                assert_eq!(caller.read(0, aligned(1 << 18)).0, Ok(()), "{driver} {elevator} {style:?}");
            }
            let error =
                (0..1024).find_map(|i| device.write_at(&[1; 4096], i << 12).err()).unwrap().to_string();
            assert!(error.contains("no space left under the device (errno 28)"), "{error}");
            drop(device);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
