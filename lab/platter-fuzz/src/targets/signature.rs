//! Signatures of disk contents.

use super::{hold, verdict};
use crate::image::Image;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::sys::signature::{ReadAt, find, refuse_if_signature};
use platter_disk::sys::{Kind, SignaturePolicy};
use std::cell::Cell;
use std::io;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "signature",
    summary: "signatures of file systems, arrays, tables and images",
    generate: |rng| sound(rng).encode(),
    mutate: |rng, input, other| {
        let mut image = Image::decode(input);
        if rng.one_in(4) {
            add(rng, &mut image);
        } else {
            image.mutate(rng, &Image::decode(other));
        }
        *input = image.encode();
    },
    read,
    memory: 8 << 20,
};

/// Most that may be read of a disk, in bytes.
const MOST_READ: u64 = (2 << 20) + 64 * 4096;

/// Signatures at fixed positions.
const FIXED: &[(u64, &[u8])] = &[
    (0x1000, b"platter array\0\0\0"),
    (0x1_0000, b"platter mirror\0\0"),
    (0, b"XFSB"),
    (0x1_0040, b"_BHRfS_M"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    (3, b"NTFS    "),
    (3, b"EXFAT   "),
    (3, b"-FVE-FS-"),
    (0x8000, b"JFS1"),
    (32, b"NXSB"),
    (0x8001, b"CD001"),
    (0xff6, b"SWAPSPACE2"),
    (0, b"LUKS\xba\xbe"),
    (512, b"EFI PART"),
    (0, b"vhdxfile"),
    (1080, &[0x53, 0xef]),
    (510, &[0x55, 0xaa]),
    (0, b"\xeb\x3c\x90mkfs.fat\x00\x02"),
    (0, b"\xe9\x3c\x00mkfs.fat\x00\x10"),
    (54, b"FAT16   "),
    (82, b"FAT32   "),
    (512, b"LABELONE\x01\0\0\0\0\0\0\0\x12\x34\x56\x78\x20\0\0\0LVM2 001"),
    (0, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    (4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    (450, &[0xee]),
    (450, &[0x83]),
    (446, &[0x13]),
    (128 << 10, b"\x0c\xb1\xba\0\0\0\0\0"),
    (384 << 10, b"\0\0\0\0\0\xba\xb1\x0c"),
];

/// Signatures near the end: bytes before the end, and rounding of the position.
const AT_END: &[(u64, u64, &[u8])] = &[
    (512, 512, b"EFI PART"),
    (512, 1, b"conectix"),
    (8192, 4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    (65536, 65536, b"\xfc\x4e\x2b\xa9\0\0\0\0"),
    (65536, 65536, b"\xa9\x2b\x4e\xfc\0\0\0\0"),
    (512 << 10, 256 << 10, b"\x0c\xb1\xba\0\0\0\0\0"),
];

fn add(rng: &mut Rng, image: &mut Image) {
    if image.pieces.len() > 32 {
        return;
    }
    if rng.one_in(4) {
        let (back, unit, magic) = *rng.pick(AT_END);
        let at = (image.size / unit * unit).saturating_sub(back);
        let at = if unit > 65536 { at + (128 << 10) } else { at };
        image.set(at, magic.to_vec());
    } else {
        let (at, magic) = *rng.pick(FIXED);
        image.set(at, magic.to_vec());
    }
    if rng.one_in(3) {
        // Features of ext2 and its like.
        let mut features = vec![0; 12];
        features[0] = *rng.pick(&[0, 4]);
        features[4] = *rng.pick(&[2, 8, 0x42]);
        features[9] = *rng.pick(&[0, 4]);
        image.set(1024 + 0x5c, features);
        image.set(1024 + 0x18, vec![*rng.pick(&[0, 2, 6, 7])]);
    }
}

fn sound(rng: &mut Rng) -> Image {
    let size = match rng.below(4) {
        0 => rng.extreme(48),
        1 => rng.below(70_000),
        _ => (1 << 20) + rng.below(8 << 20),
    };
    let mut image = Image::new(512, size);
    for _ in 0..rng.below(4) {
        add(rng, &mut image);
    }
    image
}

/// A disk that checks that it is read as promised.
struct Watched {
    image: Image,
    read: Cell<u64>,
    wrong: Cell<Option<(u64, usize)>>,
}

impl ReadAt for Watched {
    fn size(&self) -> u64 {
        self.image.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (size, len) = (self.image.size, buf.len() as u64);
        let end = offset.checked_add(len).filter(|end| *end <= size);
        let aligned = offset.is_multiple_of(4096) && (len.is_multiple_of(4096) || end == Some(size));
        if end.is_none() || !aligned {
            self.wrong.set(Some((offset, buf.len())));
        }
        self.read.set(self.read.get() + len);
        // Some image numbers make a position unreadable.
        if self.image.number % 256 == 77 && offset > 0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.image.read(offset, buf);
        Ok(())
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let disk = Watched { image: Image::decode(input), read: Cell::default(), wrong: Cell::default() };
    let found = find(&disk);
    let (size, read) = (disk.image.size, disk.read.get());
    if let Some((offset, len)) = disk.wrong.get() {
        return Err(format!("{len} bytes are read at {offset} of a disk of {size}"));
    }
    hold(read <= MOST_READ, || format!("{read} bytes are read of a disk of {size}"))?;
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(Verdict::Refused(error.to_string())),
    };
    let inside = found.iter().all(|signature| signature.offset < size);
    hold(inside && found.is_sorted_by(|a, b| a < b), || format!("{found:?} on {size} bytes"))?;
    let policy = SignaturePolicy::default();
    Ok(verdict(refuse_if_signature(Path::new("/dev/disk"), Kind::Block, &found, policy)))
}
