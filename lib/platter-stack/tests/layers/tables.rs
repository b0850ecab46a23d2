//! Partitions by number: valid tables, damaged ones, none.

use platter_cache::by_name;
use platter_disk::device::Device;
use std::sync::Arc;

const BLOCK: usize = 512;
const BLOCKS: usize = 4096;

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn slot(image: &mut [u8], block: usize, at: usize, kind: u8, begin: u32, count: u32) {
    let place = block * BLOCK + 446 + 16 * at;
    image[place + 4] = kind;
    put(image, place + 8, &begin.to_le_bytes());
    put(image, place + 12, &count.to_le_bytes());
    put(image, block * BLOCK + 510, &[0x55, 0xaa]);
}

/// Writes a header for entries that are already in the image.
fn header(image: &mut [u8], at: usize, other: usize, entries: usize) {
    let crc = crc32(&image[entries * BLOCK..entries * BLOCK + 128 * 128]);
    let mut header = [0u8; BLOCK];
    put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c\0\0\0");
    put(&mut header, 24, &(at as u64).to_le_bytes());
    put(&mut header, 32, &(other as u64).to_le_bytes());
    put(&mut header, 72, &(entries as u64).to_le_bytes());
    put(&mut header, 80, &128u32.to_le_bytes());
    put(&mut header, 84, &128u32.to_le_bytes());
    put(&mut header, 88, &crc.to_le_bytes());
    let sum = crc32(&header[..92]);
    put(&mut header, 16, &sum.to_le_bytes());
    put(image, at * BLOCK, &header);
}

/// Partitions 1 (blocks 64 to 127) and 3 (from 1000, 24 blocks).
fn gpt() -> Vec<u8> {
    let mut image = vec![0; BLOCKS * BLOCK];
    slot(&mut image, 0, 0, 0xee, 1, BLOCKS as u32 - 1);
    for entries in [2, BLOCKS - 33] {
        for (at, first, last) in [(0, 64u64, 127u64), (2, 1000, 1023)] {
            let place = entries * BLOCK + at * 128;
            image[place..place + 16].fill(0x42);
            put(&mut image, place + 32, &first.to_le_bytes());
            put(&mut image, place + 40, &last.to_le_bytes());
        }
    }
    header(&mut image, 1, BLOCKS - 1, 2);
    header(&mut image, BLOCKS - 1, 1, BLOCKS - 33);
    image
}

/// Primary partitions 1 and 2, an extended one as 3 with logical 5 and 6 in it.
fn mbr() -> Vec<u8> {
    let mut image = vec![0; BLOCKS * BLOCK];
    slot(&mut image, 0, 0, 0x83, 64, 100);
    slot(&mut image, 0, 1, 0x07, 200, 50);
    slot(&mut image, 0, 2, 0x0f, 1000, 2000);
    slot(&mut image, 1000, 0, 0x83, 8, 200);
    slot(&mut image, 1000, 1, 0x05, 500, 300);
    slot(&mut image, 1500, 0, 0x83, 16, 100);
    image
}

/// First block and number of blocks of a partition, as seen through it; or the error.
fn part(image: &[u8], number: i64) -> Result<(u64, u64), String> {
    let disk = Device::ram(image.len() as u64).unwrap();
    disk.write_at(image, 0).unwrap();
    let row = by_name("partition").unwrap();
    let layer =
        row.make(&[("number", number)], vec![Arc::clone(disk.backend())]).map_err(|e| e.to_string())?;
    let part = Device::new(layer);
    part.write_at(b"here it begins", 0).unwrap();
    let mut all = vec![0; image.len()];
    disk.read_at(&mut all, 0).unwrap();
    let begin = all.windows(14).position(|bytes| bytes == b"here it begins").unwrap();
    Ok((begin as u64 / 512, part.size() / 512))
}

#[test]
fn partitions_are_found_by_number() {
    assert_eq!((part(&gpt(), 1), part(&gpt(), 3)), (Ok((64, 64)), Ok((1000, 24))));
    let mbr = mbr();
    assert_eq!((part(&mbr, 1), part(&mbr, 2)), (Ok((64, 100)), Ok((200, 50))));
    assert_eq!((part(&mbr, 5), part(&mbr, 6)), (Ok((1008, 200)), Ok((1516, 100))));
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let wrong = |image: &[u8], number| part(image, number).unwrap_err();
    let text = wrong(&gpt(), 2);
    assert_eq!(
        text,
        "partition of ram: number=2: there is no partition 2: the GUID partition table has 1, 3"
    );
    assert!(wrong(&mbr(), 4).contains("the master boot record has 1, 2, 3, 5, 6"));
    assert!(
        wrong(&mbr(), 3)
            .contains("partition 3 is an extended partition, which only holds logical ones (5 and up)")
    );
    assert!(wrong(&vec![0; 65536], 1).contains("there is no partition table: block 0 does not end in 55 aa"));
    assert!(wrong(&[0; 1024], 1).contains("the disk has 2 blocks, too few"));
    let disk = Device::ram(65536).unwrap();
    let both = [("number", 1), ("offset", 512)];
    let error = by_name("partition").unwrap().make(&both, vec![Arc::clone(disk.backend())]).err().unwrap();
    assert!(error.to_string().contains("leave out offset= and length="), "{error}");
}

/// Damage to one table leaves the other one usable; the error names damage to both.
#[test]
fn a_damaged_table_is_replaced_by_the_backup() {
    let damage = |places: &[usize]| {
        let mut image = gpt();
        places.iter().for_each(|&at| image[at] ^= 1);
        part(&image, 1)
    };
    let (primary, backup) = (BLOCK, (BLOCKS - 1) * BLOCK);
    let (entries, other) = (2 * BLOCK, (BLOCKS - 33) * BLOCK);
    for at in [
        primary,
        primary + 12,
        primary + 16,
        primary + 24,
        primary + 72,
        primary + 80,
        primary + 88,
        entries + 40,
    ] {
        assert_eq!(damage(&[at]), Ok((64, 64)), "byte {at}");
    }
    assert_eq!(damage(&[backup, other]), Ok((64, 64)));
    let text = damage(&[primary + 40, backup]).unwrap_err();
    assert!(
        text.contains("both GUID partition tables are damaged. The primary one in block 1: its CRC is"),
        "{text}"
    );
    assert!(text.contains("The backup in block 4095: it does not begin with"), "{text}");
    let text = damage(&[entries + 40, backup + 16]).unwrap_err();
    assert!(text.contains("the CRC of its entries is"), "{text}");
}

#[test]
fn nonsense_in_a_sound_table_is_refused() {
    // A partition past the end of the disk, and one that ends before it begins.
    for last in [BLOCKS as u64, 10] {
        let mut image = gpt();
        put(&mut image, 2 * BLOCK + 40, &last.to_le_bytes());
        header(&mut image, 1, BLOCKS - 1, 2);
        let text = part(&image, 1).unwrap_err();
        assert!(text.contains("the table is damaged, or of another disk"), "{text}");
    }
    let mut image = mbr();
    slot(&mut image, 0, 0, 0x83, u32::MAX, u32::MAX);
    assert!(part(&image, 1).unwrap_err().contains("and the disk 4096"));
    // A chain with a cycle, one that leads past the end, and one that is damaged.
    let mut image = mbr();
    slot(&mut image, 1500, 1, 0x05, 500, 300);
    assert!(part(&image, 300).unwrap_err().contains("has more than 256 records, or is a cycle"));
    slot(&mut image, 1500, 1, 0x05, 50_000, 300);
    assert!(part(&image, 5).unwrap_err().contains("block 51000 is past the end"));
    image[1500 * BLOCK + 511] = 0;
    assert!(part(&image, 5).unwrap_err().contains("the extended boot record in block 1500 is damaged"));
}

/// A disk that cannot be read in one place: the error says which data is there.
#[test]
fn an_error_says_which_part_of_the_table_was_read() {
    let cases = [
        (gpt(), 1, 0, "while reading the first two blocks (boot record, head of the partition table)"),
        (mbr(), 5, 1000, "while reading an extended boot record"),
    ];
    for (image, number, block, says) in cases {
        let disk = Device::ram(image.len() as u64).unwrap();
        disk.write_at(&image, 0).unwrap();
        let bad = [("op", 1), ("offset", block * BLOCK as i64), ("length", BLOCK as i64)];
        let failing = by_name("error").unwrap().make(&bad, vec![Arc::clone(disk.backend())]).unwrap();
        let row = by_name("partition").unwrap();
        let error = row.make(&[("number", number)], vec![failing]).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut image = gpt();
    image[BLOCK] = 0;
    let disk = Device::ram(image.len() as u64).unwrap();
    disk.write_at(&image, 0).unwrap();
    for (block, says) in [
        (BLOCKS - 1, "while reading the header of the backup partition table"),
        (BLOCKS - 33, "while reading the entries of the partition table"),
    ] {
        let bad = [("op", 1), ("offset", (block * BLOCK) as i64), ("length", BLOCK as i64)];
        let failing = by_name("error").unwrap().make(&bad, vec![Arc::clone(disk.backend())]).unwrap();
        let error = by_name("partition").unwrap().make(&[("number", 1)], vec![failing]).err().unwrap();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Entry counts that would take gigabytes are refused before anything is allocated.
#[test]
fn the_size_of_a_table_is_bounded() {
    for (at, value) in [(80, u32::MAX), (80, 4097), (80, 0), (84, u32::MAX), (84, 8192), (84, 0), (84, 100)] {
        let mut image = gpt();
        for block in [1, BLOCKS - 1] {
            put(&mut image, block * BLOCK + at, &value.to_le_bytes());
            let mut sum = image[block * BLOCK..block * BLOCK + 92].to_vec();
            sum[16..20].fill(0);
            put(&mut image, block * BLOCK + 16, &crc32(&sum).to_le_bytes());
        }
        let text = part(&image, 1).unwrap_err();
        assert!(text.contains("entries of") && text.contains("1 to 4096"), "{text}");
    }
}

/// Random contents of tables never cause a panic.
#[test]
fn random_tables_do_no_harm() {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let row = by_name("partition").unwrap();
    let disk = Device::ram((BLOCKS * BLOCK) as u64).unwrap();
    let (gpt, mbr) = (gpt(), mbr());
    let mut found = 0;
    for round in 0..2000 {
        let sound = if round % 2 == 0 { &gpt } else { &mbr };
        let mut head = sound[..3 * BLOCK].to_vec();
        for _ in 0..1 + next() % 4 {
            let at = [446 + next() % 66, BLOCK + next() % 92, next() % (3 * BLOCK)][next() % 3];
            head[at] = next() as u8;
        }
        if next() % 2 == 0 {
            let mut sum = head[BLOCK..BLOCK + 92].to_vec();
            sum[16..20].fill(0);
            put(&mut head, BLOCK + 16, &crc32(&sum).to_le_bytes());
        }
        disk.write_at(&head, 0).unwrap();
        for number in [1, 5] {
            found += row.make(&[("number", number)], vec![Arc::clone(disk.backend())]).map_or(0, |_| 1);
        }
    }
    assert!(found > 100, "some were sound: {found}");
}

/// A disk of `blocks` blocks of `block` bytes with partition 2 in blocks 20 to 27, its primary table damaged or not.
fn gpt_of(block: usize, blocks: usize, damaged: bool) -> Vec<u8> {
    let mut image = vec![0; block * blocks];
    slot(&mut image, 0, 0, 0xee, 1, blocks as u32 - 1);
    let len = (128usize * 128).div_ceil(block);
    for (at, other, entries) in [(1, blocks - 1, 2), (blocks - 1, 1, blocks - 1 - len)] {
        let place = entries * block + 128;
        image[place..place + 16].fill(0x42);
        put(&mut image, place + 32, &20u64.to_le_bytes());
        put(&mut image, place + 40, &27u64.to_le_bytes());
        let crc = crc32(&image[entries * block..entries * block + 128 * 128]);
        let mut header = vec![0u8; block];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c\0\0\0");
        put(&mut header, 24, &(at as u64).to_le_bytes());
        put(&mut header, 32, &(other as u64).to_le_bytes());
        put(&mut header, 72, &(entries as u64).to_le_bytes());
        put(&mut header, 80, &128u32.to_le_bytes());
        put(&mut header, 84, &128u32.to_le_bytes());
        put(&mut header, 88, &crc.to_le_bytes());
        let sum = crc32(&header[..92]);
        put(&mut header, 16, &sum.to_le_bytes());
        put(&mut image, at * block, &header);
    }
    if damaged {
        image[block..block * 2].fill(0);
    }
    image
}

#[test]
fn a_table_may_count_in_sectors_of_another_size_than_the_blocks_of_the_device() {
    for (sector, damaged) in
        [512, 1024, 2048, 4096].into_iter().flat_map(|size| [(size, false), (size, true)])
    {
        let image = gpt_of(sector, 64, damaged);
        let device = Device::ram(image.len() as u64).unwrap();
        device.write_at(&image, 0).unwrap();
        let part = platter_stack::partition::numbered(Arc::clone(device.backend()), 2).unwrap();
        assert_eq!(part.geometry().size, 8 * sector as u64, "{sector} {damaged}");
        let facts = part.facts();
        let fact = |name: &str| facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone());
        assert_eq!(fact("offset"), Some((20 * sector).to_string()), "{facts:?}");
        assert_eq!(fact("table_sector"), Some(sector.to_string()), "{facts:?}");
    }
}
