//! Mounted file systems and swap space, as `/proc` lists them (formats: `proc(5)`).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::sysfs::DeviceNumber;

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) device: DeviceNumber,
    pub(super) mount_point: PathBuf,
    pub(super) fs_type: String,
    pub(super) source: PathBuf,
}

/// The mounts that this process sees; empty without `/proc`.
pub(super) fn mounts() -> Vec<Mount> {
    fs::read("/proc/self/mountinfo").map(|text| parse_mounts(&text)).unwrap_or_default()
}

/// The files and devices that the system swaps to; empty without `/proc`.
pub(super) fn swaps() -> Vec<PathBuf> {
    fs::read("/proc/swaps").map(|text| parse_swaps(&text)).unwrap_or_default()
}

pub(super) fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse_mount).collect()
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    // Six fixed fields, any number of optional ones, a lone dash, then three more.
    let dash = 6 + words.get(6..)?.iter().position(|w| *w == b"-")?;
    let fs_type = words.get(dash + 1)?;
    Some(Mount {
        id: text(words[0]).parse().ok()?,
        device: DeviceNumber::parse(&text(words[2]))?,
        mount_point: unescape(words[4]),
        fs_type: text(fs_type),
        source: unescape(words.get(dash + 2)?),
    })
}

pub(super) fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    let first_word = |line: &[u8]| line.split(u8::is_ascii_whitespace).next().map(unescape);
    // The first line is a heading.
    text.split(|b| *b == b'\n').skip(1).filter(|line| !line.is_empty()).filter_map(first_word).collect()
}

/// Decodes `\040` and similar escapes.
fn unescape(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = (byte == b'\\').then(|| octal(tail)).flatten();
        out.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(out))
}

fn octal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 27 0:35 /sub /mnt/my\\040disk rw shared:7 master:2 - btrfs /dev/sdb1 rw,subvol=/sub\n\
        broken line\n\
        41 27 8:x / /x rw - ext4 /dev/sdx rw\n";

    #[test]
    fn mountinfo_with_optional_fields_and_escapes() {
        let all = parse_mounts(MOUNTS);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].id, all[0].device), (27, DeviceNumber { major: 254, minor: 0 }));
        assert_eq!((all[0].fs_type.as_str(), all[0].source.to_str()), ("ext4", Some("/dev/vda")));
        assert_eq!(all[1].mount_point, PathBuf::from("/mnt/my disk"));
        assert_eq!((all[1].fs_type.as_str(), all[1].source.to_str()), ("btrfs", Some("/dev/sdb1")));
    }

    #[test]
    fn swaps_without_their_heading() {
        let text =
            b"Filename\t\t\t\tType\t\tSize\n/dev/dm-1      partition\t1\t0\t-2\n/swap\\040file\tfile\t1\n";
        assert_eq!(parse_swaps(text), [PathBuf::from("/dev/dm-1"), PathBuf::from("/swap file")]);
        assert!(parse_swaps(b"Filename Type\n").is_empty());
    }

    #[test]
    fn backslashes_that_escape_nothing_stay() {
        assert_eq!(unescape(b"a\\"), PathBuf::from("a\\"));
        assert_eq!(unescape(b"a\\9zz\\011"), PathBuf::from("a\\9zz\t"));
    }

    #[test]
    fn this_process_sees_a_root() {
        assert!(mounts().iter().any(|m| m.mount_point == std::path::Path::new("/")));
    }
}
