//! Members that the kernel made, and changes of their superblocks.

use flate2::read::GzDecoder;
use platter::Device;
use platter::registry::{self, Access, OpenError};
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An array that the kernel made.
pub(crate) struct Array {
    pub(crate) name: String,
    /// Bytes of the array.
    pub(crate) size: u64,
    pub(crate) members: Vec<Vec<u8>>,
}

/// Where the arrays are: those of the tree, or all that `scripts/make-md-images` makes, in `PLATTER_MD_IMAGES`.
fn place() -> PathBuf {
    match std::env::var_os("PLATTER_MD_IMAGES") {
        Some(place) => PathBuf::from(place),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/md/arrays"),
    }
}

/// Where the arrays with logs are: those of the tree, or all that `scripts/make-md-log-images` makes, in `PLATTER_MD_LOG_IMAGES`.
pub(crate) fn place_of_logs() -> PathBuf {
    match std::env::var_os("PLATTER_MD_LOG_IMAGES") {
        Some(place) => PathBuf::from(place),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/md/logs"),
    }
}

fn list(place: &Path) -> Vec<(String, u64, Vec<usize>)> {
    let text = std::fs::read_to_string(place.join("arrays")).unwrap();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_owned();
        let size = words.next().unwrap().parse().unwrap();
        (name, size, words.map(|word| word.parse().unwrap()).collect())
    };
    text.lines().map(line).collect()
}

/// The names of the arrays.
pub(crate) fn names() -> Vec<String> {
    list(&place()).into_iter().map(|(name, ..)| name).collect()
}

/// An array by its name.
pub(crate) fn array(name: &str) -> Array {
    array_in(&place(), name)
}

/// An array in a directory.
pub(crate) fn array_in(place: &Path, name: &str) -> Array {
    let found = list(place).into_iter().find(|(own, ..)| own == name);
    let (name, size, sizes) = found.unwrap_or_else(|| panic!("there is no array {name}"));
    let mut all = Vec::new();
    let packed = std::fs::File::open(place.join(format!("{name}.gz"))).unwrap();
    GzDecoder::new(packed).read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), sizes.iter().sum::<usize>(), "{name}");
    let mut rest = &all[..];
    let mut take = |size: usize| {
        let (first, after) = rest.split_at(size);
        rest = after;
        first.to_vec()
    };
    Array { members: sizes.into_iter().map(&mut take).collect(), name, size }
}

/// What sector `number` of an array holds.
pub(crate) fn sector(number: u64) -> Vec<u8> {
    format!("{number:015}\n").repeat(32).into_bytes()
}

/// All of an array.
pub(crate) fn expected(size: u64) -> Vec<u8> {
    (0..size / 512).flat_map(sector).collect()
}

impl Array {
    /// Writes the members to files.
    pub(crate) fn files(&self, dir: &TempDir) -> Vec<String> {
        let file = |(at, bytes): (usize, &Vec<u8>)| {
            let path = dir.path().join(format!("{}.{at}", self.name));
            std::fs::write(&path, bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        self.members.iter().enumerate().map(file).collect()
    }

    /// Changes the superblock 1.2 of a member, and mends its checksum.
    pub(crate) fn change(&mut self, member: usize, change: impl FnOnce(&mut [u8])) {
        let superblock = &mut self.members[member][4096..8192];
        change(superblock);
        sign(superblock);
    }

    /// Where the data of a member begins.
    pub(crate) fn data(&self, member: usize) -> usize {
        let superblock = &self.members[member][4096..8192];
        usize::try_from(u64::from_le_bytes(superblock[0x80..0x88].try_into().unwrap())).unwrap() * 512
    }

    /// Overwrites a range of a member's data with what is no array's.
    pub(crate) fn spoil(&mut self, member: usize, from: usize, to: usize) {
        let data = self.data(member);
        self.members[member][data + from..data + to].fill(0xee);
    }
}

/// Sets a field.
pub(crate) fn set(superblock: &mut [u8], at: usize, value: &[u8]) {
    superblock[at..at + value.len()].copy_from_slice(value);
}

/// Adds bits to the features.
pub(crate) fn add_features(superblock: &mut [u8], bits: u32) {
    let features = u32::from_le_bytes(superblock[8..12].try_into().unwrap());
    set(superblock, 8, &(features | bits).to_le_bytes());
}

/// The checksum as the kernel computes it.
fn sign(superblock: &mut [u8]) {
    let word = |at: usize| u64::from(u32::from_le_bytes(superblock[at..at + 4].try_into().unwrap()));
    let members = word(0xdc) as usize;
    let sum: u64 = (0..(256 + 2 * members) / 4 * 4).step_by(4).filter(|&at| at != 0xd8).map(word).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    set(superblock, 0xd8, &sum.to_le_bytes());
}

/// Opens an array of these members, with these arguments before them.
pub(crate) fn open(arguments: &str, members: &[String]) -> Result<Device, OpenError> {
    registry::open(&format!("md({arguments}{})", members.join(", ")), Access::read())
}

/// Why these members are no array.
pub(crate) fn refused(arguments: &str, members: &[String]) -> String {
    match open(arguments, members) {
        Ok(_) => panic!("{members:?} open"),
        Err(error) => error.to_string(),
    }
}

/// All of a device.
pub(crate) fn read_all(device: &Device) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.size()).unwrap()];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Checks that a device holds what the arrays hold, and names the first sector that differs.
pub(crate) fn check_contents(device: &Device, size: u64, what: &str) {
    assert_eq!(device.size(), size, "{what}");
    let bytes = read_all(device);
    for (number, bytes) in bytes.chunks_exact(512).enumerate() {
        assert!(
            bytes == sector(number as u64),
            "{what}: sector {number} is {:?}",
            String::from_utf8_lossy(&bytes[..16])
        );
    }
}

/// Runs the command. Returns its status, output and messages.
pub(crate) fn platter(arguments: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_platter")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
