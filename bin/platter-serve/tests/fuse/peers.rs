//! Files of devices in use by other programs, and by this one as disks.

use crate::rig::{Mounted, PATIENCE, SIZE};
use platter::registry::{self, Access};
use platter_block::bio::Bio;
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::process::Command;

const BLOCK: usize = 4096;

/// Random writes and reads of a file that is a disk, many at a time.
fn live_at_depth(device: &Device, depth: usize, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut channel = device.channel(depth).unwrap();
    let blocks = device.size() as usize / BLOCK;
    let mut versions = vec![0u8; blocks];
    let mut done = Vec::new();
    for round in 1..=60u8 {
        let mut chosen: Vec<usize> = (0..depth).map(|_| random.next_u64() as usize % blocks).collect();
        chosen.sort_unstable();
        chosen.dedup();
        for &block in &chosen {
            versions[block] = round;
            let bio = match random.next_u64() % 8 {
                0 => {
                    versions[block] = 0;
                    Bio::write_zeroes((block * BLOCK) as u64, BLOCK as u64)
                }
                _ => Bio::write((block * BLOCK) as u64, vec![round; BLOCK]).unwrap(),
            };
            assert!(channel.submit(bio).is_ok());
        }
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        assert!(done.drain(..).all(|bio| bio.status().is_ok()));
        for start in (0..blocks).step_by(depth) {
            for block in start..(start + depth).min(blocks) {
                let mut bio = Bio::read((block * BLOCK) as u64, vec![0xee; BLOCK]).unwrap();
                bio.set_token(block as u64);
                assert!(channel.submit(bio).is_ok());
            }
            while channel.outstanding() > 0 {
                channel.wait(&mut done, None);
            }
            for mut bio in done.drain(..) {
                assert!(bio.status().is_ok());
                let (block, data) = (bio.token() as usize, bio.take_buffer::<Vec<u8>>().unwrap());
                assert!(data == [versions[block]; BLOCK], "round {round}, block {block}, seed {seed}");
            }
        }
    }
    drop(channel);
    device.flush().unwrap();
}

#[test]
fn a_file_is_a_disk_of_this_program() {
    for (seed, spec) in
        ["file(PATH)", "file(PATH, direct=off)", "file(PATH, elevator=mq-deadline)"].into_iter().enumerate()
    {
        let ram = Device::ram(SIZE).unwrap();
        let Some(mut mounted) = Mounted::of(ram.clone()) else { return };
        let spec = spec.replace("PATH", mounted.path().to_str().unwrap());
        let file = registry::open(&spec, Access::read_write()).unwrap();
        assert_eq!(file.size(), SIZE);
        live_at_depth(&file, 32, seed as u64);
        let [mut through, mut below] = [0; 2].map(|_| vec![0; SIZE as usize]);
        file.read_at(&mut through, 0).unwrap();
        ram.read_at(&mut below, 0).unwrap();
        assert!(through == below);
        drop(file);
        mounted.stop(PATIENCE).unwrap();
    }
}

/// fio at depth 32 without the page cache, with the cache, and with `O_DSYNC`.
#[test]
fn fio_verifies_what_it_writes_at_depth_32() {
    if Command::new("fio").arg("--version").output().is_err() {
        return eprintln!("skipped: fio is not installed");
    }
    let mut cached = Options::default();
    cached.kernel_cache = true;
    for (options, more) in [
        (Options::default(), &["--direct=1", "--bsrange=512-128k", "--bs_unaligned=0"][..]),
        (Options::default(), &["--direct=1", "--bs=4k", "--sync=dsync"]),
        (cached, &["--bs=4k"]),
    ] {
        let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap();
        let Some(mounted) = Mounted::new(vec![served], &options) else { return };
        let (file, size) = (format!("--filename={}", mounted.path().display()), format!("--size={SIZE}"));
        let job = ["--name=verify", "--ioengine=io_uring", "--rw=randwrite", "--iodepth=32", "--thread"];
        let check = ["--verify=crc32c", "--verify_fatal=1", "--randseed=1", "--verify_state_save=0"];
        let arguments = [&job[..], more, &check, &[&file, &size]].concat();
        let output = Command::new("fio").args(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fio {}: {text}", arguments.join(" "));
    }
}
