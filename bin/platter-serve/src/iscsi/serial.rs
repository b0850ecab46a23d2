//! Serial numbers of units.
//!
//! Initiators take two units with equal numbers for two paths to one disk, so no two disks may have the same one: not on this machine
//! and not on another. A disk keeps its number when its server is started again, because initiators that come back compare it. A disk
//! that is only in the memory of this process has a number for as long as the process lasts, like its contents.

use md5::{Digest, Md5};
use platter_block::backend::Identity;
use platter_disk::device::Device;
use std::sync::OnceLock;

/// Where Linux keeps a number of the machine, or at least one of its present run.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];

/// The number of the unit that a server shows under `name`.
pub(crate) fn number(name: &str, device: &Device) -> String {
    let mut digest = Md5::new();
    digest.update(machine());
    for part in [name, &device.name()] {
        digest.update([0]);
        digest.update(part);
    }
    for range in device.backend().disk_ranges() {
        let (kind, number) = match range.disk {
            // The number of a file system's device may change when the machine is started.
            Identity::File(_, inode) => (1u8, inode),
            Identity::Node(node) => (2, node),
            Identity::Remote(hash) => (3, hash),
            Identity::Process(number) => {
                digest.update(process());
                (4, number)
            }
            _ => {
                digest.update(process());
                (5, 0)
            }
        };
        digest.update([kind]);
        [number, range.begin, range.end].into_iter().for_each(|number| digest.update(number.to_be_bytes()));
    }
    let hash = digest.finalize();
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{hex}")
}

fn machine() -> Vec<u8> {
    let found = MACHINE.iter().find_map(|path| std::fs::read(path).ok().filter(|text| !text.is_empty()));
    found.unwrap_or_else(|| process().to_vec())
}

/// A number of this process that no other has.
fn process() -> &'static [u8; 16] {
    static PROCESS: OnceLock<[u8; 16]> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let mut random = [0; 16];
        let filled = rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty());
        if filled != Ok(random.len()) {
            // Without random numbers: the present time is not repeated.
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            random = (now.as_nanos() ^ u128::from(std::process::id()) << 96).to_be_bytes();
        }
        random
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::open::DiskOptions;

    #[test]
    fn a_disk_keeps_its_number_and_two_disks_have_two() {
        let files = [0; 2].map(|_| tempfile::NamedTempFile::new().unwrap());
        for file in &files {
            file.as_file().set_len(1 << 20).unwrap();
        }
        let open = |at: usize| Device::open(files[at].path(), DiskOptions::default()).unwrap();
        let of = |at| number("disk", &open(at));
        assert_eq!(of(0), of(0), "opened again");
        assert_ne!(of(0), of(1));
        assert_ne!(of(0), number("other", &open(0)));
        let memory = [Device::ram(1 << 20).unwrap(), Device::ram(1 << 20).unwrap()];
        let [one, two] = memory.each_ref().map(|device| number("disk", device));
        assert_ne!(one, two);
        assert_eq!(one, number("disk", &memory[0]));
        assert!(one.starts_with("disk-") && one.len() == 5 + 16, "{one}");
    }
}
