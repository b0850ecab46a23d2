//! Arrays with partial parity or a journal, as the kernel left them when the power was cut: each is read whole and without each member.

use crate::images::{Array, array_in, open, place_of_logs, platter, refused, sector};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Blocks of members, as logs count.
const BLOCK: u64 = 8;
/// Sectors of a chunk.
const CHUNK: u64 = 16;

/// A write that had been started: sectors, and whether it had ended.
#[derive(Clone, Copy, Debug)]
struct Write {
    first: u64,
    count: u64,
    has_ended: bool,
}

/// The names of the arrays, with the writes to each.
fn all() -> Vec<(String, Vec<Write>)> {
    let text = std::fs::read_to_string(place_of_logs().join("writes")).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let write = |write: &[&str]| Write {
            first: write[0].parse().unwrap(),
            count: write[1].parse().unwrap(),
            has_ended: write[2] == "ended",
        };
        (words[0].to_owned(), words[2..].chunks_exact(3).map(write).collect())
    };
    text.lines().map(line).collect()
}

fn of(name: &str) -> (Array, Vec<Write>) {
    let (_, writes) = all().into_iter().find(|(own, _)| own == name).unwrap();
    (array_in(&place_of_logs(), name), writes)
}

/// What a write puts into a sector.
fn new(number: u64) -> Vec<u8> {
    format!("new{:012}\n", (number + 1) * (number + 1) * 509).repeat(32).into_bytes()
}

fn covers(writes: &[Write], number: u64, has_ended: bool) -> bool {
    writes.iter().any(|write| {
        write.has_ended == has_ended && (write.first..write.first + write.count).contains(&number)
    })
}

/// The files of all members but one.
fn without(files: &[String], lost: usize) -> Vec<String> {
    (0..files.len()).filter(|&member| member != lost).map(|member| files[member].clone()).collect()
}

/// Reads each sector: what is not being written is old, what was acknowledged is new, the rest is old or new. Returns the sectors that
/// were errors.
fn read(arguments: &str, files: &[String], array: &Array, writes: &[Write], what: &str) -> BTreeSet<u64> {
    let device = open(arguments, files).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(device.size(), array.size, "{what}");
    let mut failed = BTreeSet::new();
    for number in 0..array.size / 512 {
        let mut bytes = vec![0; 512];
        match device.read_at(&mut bytes, number * 512) {
            Ok(()) => {
                let (ended, held) = (covers(writes, number, true), covers(writes, number, false));
                let is_old = !ended && bytes == sector(number);
                let is_new = (ended || held) && bytes == new(number);
                let text = String::from_utf8_lossy(&bytes[..16]);
                assert!(is_old || is_new, "{what}: sector {number} is {text:?}");
            }
            Err(error) => {
                assert!(error.to_string().contains("was being written"), "{what}: {error}");
                failed.insert(number);
            }
        }
    }
    failed
}

/// The sectors of a raid5 of four members, left-symmetric, that nothing can say without a member: those of rows in which other data was
/// being written too.
fn undefined(writes: &[Write], lost: u64) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    let row = 3 * CHUNK;
    for number in 0..8 * row {
        let (at, data, within) = (number / row, number % row / CHUNK, number % CHUNK);
        let block = within / BLOCK * BLOCK;
        let parity = 3 - at % 4;
        let is_written = |data: u64| {
            let first = at * row + data * CHUNK + block;
            (first..first + BLOCK).any(|number| covers(writes, number, false))
        };
        let count = (0..3).filter(|&data| is_written(data)).count();
        if (parity + 1 + data) % 4 == lost && is_written(data) && count > 1 {
            all.insert(number);
        }
    }
    all
}

#[test]
fn partial_parity_is_applied_without_each_member() {
    let dir = tempfile::tempdir().unwrap();
    let mut errors = 0;
    for (name, writes) in all().into_iter().filter(|(name, _)| name.starts_with("ppl")) {
        let array = array_in(&place_of_logs(), &name);
        let files = array.files(&dir);
        let failed = read("", &files, &array, &writes, &name);
        assert!(failed.is_empty(), "{name}: {failed:?}");
        for lost in 0..4 {
            let what = format!("{name} without member {lost}");
            let failed = read("", &without(&files, lost), &array, &writes, &what);
            assert_eq!(failed, undefined(&writes, lost as u64), "{what}");
            errors += failed.len();
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
    assert!(errors > 100, "{errors} sectors");
}

#[test]
fn a_forced_start_reads_what_the_log_leaves_undefined() {
    let dir = tempfile::tempdir().unwrap();
    let (array, writes) = of("ppl-held-1");
    let files = array.files(&dir);
    for lost in 0..4 {
        let device = open("force=on, ", &without(&files, lost)).unwrap();
        let undefined = undefined(&writes, lost as u64);
        for number in 0..array.size / 512 {
            let mut bytes = vec![0; 512];
            device.read_at(&mut bytes, number * 512).unwrap();
            let is_known = undefined.contains(&number) || bytes == sector(number) || bytes == new(number);
            assert!(is_known, "sector {number} without member {lost}");
        }
    }
}

/// Where the newest record of a member's log is.
fn newest(array: &Array, member: usize, dir: &tempfile::TempDir) -> usize {
    let files = array.files(dir);
    let (_, shown, _) = platter(&["raid", "examine", "--json", &files[member]]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let generation = shown[0]["ppl"]["generation"].as_u64().unwrap();
    let log = 16 * 512;
    let is_newest = |at: &usize| {
        let header = &array.members[member][log + at..][..4096];
        header[..512].iter().all(|&byte| byte == 0xff) && header[520..528] == generation.to_le_bytes()
    };
    log + (0..1 << 20).step_by(4096).find(is_newest).unwrap()
}

#[test]
fn damaged_entries_and_logs_are_not_applied() {
    let dir = tempfile::tempdir().unwrap();
    let (array, writes) = of("ppl-held-1");
    // The log of member 1 has rows 2 and 6: of row 2, sectors 104 to 128 were being written.
    let record = newest(&array, 1, &dir);
    let of_member = |lost: u64, rows: &[u64]| {
        let number = move |row: u64| {
            let data = (0..3).find(|data| (3 - row % 4 + 1 + data) % 4 == lost).unwrap();
            (0..CHUNK).map(move |at| row * 3 * CHUNK + data * CHUNK + at)
        };
        rows.iter().copied().flat_map(number).collect::<BTreeSet<u64>>()
    };
    for (at, rows, told) in
        [(record + 4096 + 7, &[2][..], "damaged"), (16 * 512 + 3, &[2, 6], "checksum does not match")]
    {
        let mut damaged = array_in(&place_of_logs(), "ppl-held-1");
        damaged.members[1][at] ^= 1;
        let files = damaged.files(&dir);
        assert!(read("", &files, &array, &writes, told).is_empty());
        for lost in [0, 2, 3] {
            let what = format!("{told}, without member {lost}");
            let left = without(&files, lost);
            let failed = read("", &left, &array, &writes, &what);
            let most: BTreeSet<u64> =
                undefined(&writes, lost as u64).into_iter().chain(of_member(lost as u64, rows)).collect();
            assert!(failed.is_subset(&most), "{what}: {failed:?}");
            assert!(of_member(lost as u64, rows).iter().any(|number| failed.contains(number)), "{what}");
            let (_, text, _) = platter(&[vec!["raid", "examine"], refs(&left)].concat());
            assert!(text.contains(told), "{text}");
        }
    }
    // A log of another array is none.
    let mut other = array_in(&place_of_logs(), "ppl-held-1");
    (0..4).for_each(|member| other.change(member, |superblock| superblock[0x10] ^= 1));
    let said = refused("", &without(&other.files(&dir), 0));
    assert!(said.contains("do not vouch for its parity") && said.contains("force=on"), "{said}");
}

fn refs(files: &[String]) -> Vec<&str> {
    files.iter().map(String::as_str).collect()
}

#[test]
fn journals_are_applied_without_each_member() {
    let dir = tempfile::tempdir().unwrap();
    for (name, writes) in all().into_iter().filter(|(name, _)| name.starts_with("journal")) {
        let array = array_in(&place_of_logs(), &name);
        let files = array.files(&dir);
        // All of these had reached the journal.
        let writes: Vec<Write> = writes.into_iter().map(|write| Write { has_ended: true, ..write }).collect();
        assert!(read("", &files, &array, &writes, &name).is_empty(), "{name}");
        for lost in 0..4 {
            let what = format!("{name} without member {lost}");
            let left = without(&files, lost);
            // It was made by a resynchronization, and never assembled since: its superblocks do not say that it is in sync.
            let arguments = if name.starts_with("journal6") { "force=on, " } else { "" };
            if !arguments.is_empty() {
                assert!(refused("", &left).contains("was being written when it stopped"), "{what}");
            }
            assert!(read(arguments, &left, &array, &writes, &what).is_empty(), "{what}");
        }
        let said = refused("", &without(&files, 4));
        assert!(said.contains("the journal device is missing") && said.contains("force=on"), "{said}");
        let device = open("force=on, ", &without(&files, 4)).unwrap();
        assert!(format!("{:?}", device.facts()).contains("was not applied: the last writes may be missing"));
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

/// A journal on which nothing had reached the members, with a byte changed that lies this far behind a meta block.
fn damaged_journal(meta: u64, behind: usize) -> Array {
    let (mut array, _) = of("journal5-back");
    let begin = array.data(4);
    let tail = u64::from_le_bytes(array.members[4][4096 + 0x98..][..8].try_into().unwrap());
    let first =
        u64::from_le_bytes(array.members[4][begin + tail as usize * 512 + 16..][..8].try_into().unwrap());
    let is_meta = |at: &usize| {
        let block = &array.members[4][begin + at..][..4096];
        block[..4] == 0x6433_c509u32.to_le_bytes() && block[16..24] == (first + meta).to_le_bytes()
    };
    let at = (0..2 << 20).step_by(4096).find(is_meta).unwrap();
    array.members[4][begin + at + behind] ^= 1;
    array
}

#[test]
fn a_journal_is_applied_up_to_a_bad_checksum() {
    let dir = tempfile::tempdir().unwrap();
    // The fourth meta block has the write of 24 sectors from 0 on, the first one that was acknowledged while the members were held.
    for (behind, told) in [(4096 + 9, "of meta block"), (100, "the checksum of the journal's block")] {
        let array = damaged_journal(3, behind);
        let files = array.files(&dir);
        for lost in 0..5 {
            let left = if lost == 4 { files.clone() } else { without(&files, lost) };
            let device = open("", &left).unwrap();
            let mut failed = 0;
            for number in 0..array.size / 512 {
                let is_new = [(208..224), (240..288)].iter().any(|range| range.contains(&number));
                let mut bytes = vec![0; 512];
                match device.read_at(&mut bytes, number * 512) {
                    Ok(()) => assert!(bytes == if is_new { new(number) } else { sector(number) }, "{number}"),
                    Err(_) => {
                        failed += 1;
                        assert!(lost < 4 && number < 192, "sector {number} without {lost}");
                    }
                }
            }
            // Rows of the damaged block are not computed.
            assert_eq!(failed > 0, lost < 4 && behind > 4096, "{told}, without {lost}");
        }
        let (_, text, _) = platter(&[vec!["raid", "examine"], refs(&files)].concat());
        assert!(text.contains("it ends at a block that is torn or damaged") && text.contains(told), "{text}");
        assert!(text.contains("its journal is not applied further"), "{text}");
    }
    let array = damaged_journal(0, 100);
    let said = refused("", &array.files(&dir));
    assert!(said.contains("cannot be used") && said.contains("at its tail"), "{said}");
}

#[test]
fn examine_shows_logs() {
    let dir = tempfile::tempdir().unwrap();
    let (array, _) = of("journal5-back");
    let files = array.files(&dir);
    let (_, shown, _) = platter(&[vec!["raid", "examine", "--json"], refs(&files)].concat());
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let journal = &shown[4]["journal"];
    assert_eq!(
        (&journal["tail_bytes"], &journal["end_bytes"], &journal["damage"]),
        (&json!(204_800), &json!(434_176), &Value::Null)
    );
    assert_eq!((&journal["meta_blocks"], &journal["parity_blocks"]), (&json!(9), &json!(6)), "{journal}");
    assert_eq!((&shown[0]["journal"], &shown[0]["array_state"]), (&Value::Null, &json!("complete")));
    assert!(shown[0]["logs"][0].as_str().unwrap().contains("its journal is applied"), "{shown}");
    let (_, text, _) = platter(&[vec!["raid", "examine"], refs(&files)].concat());
    assert!(text.contains("it ends where no further block was written"), "{text}");
    let (array, _) = of("ppl-held-1");
    let files = array.files(&dir);
    let (_, shown, _) = platter(&[vec!["raid", "examine", "--json"], refs(&files)].concat());
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let log = &shown[1]["ppl"];
    assert_eq!((&log["entries"], &log["damaged_entries"]), (&json!(2), &json!(0)), "{log}");
    assert_eq!(log["covers"][0]["array_byte"], 112 * 512);
    let (_, text, _) = platter(&[vec!["raid", "examine"], refs(&files)].concat());
    assert!(text.contains("4096 bytes of the array from byte 57344 on were being written"), "{text}");
    let (code, found, _) = platter(&[vec!["raid", "check", "--json"], refs(&files)].concat());
    let found: Value = serde_json::from_str(&found).unwrap();
    let mismatches = found["mismatches"].as_array().unwrap();
    assert!(code == 1 && !mismatches.is_empty(), "{found}");
    assert!(mismatches.iter().all(|range| range["expected"] == true), "{found}");
}

#[test]
fn nothing_is_written_to_members_or_journal() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ppl-held-1", "journal5-back"] {
        let (array, _) = of(name);
        let files = array.files(&dir);
        let device = open("", &files).unwrap();
        crate::images::read_all(&device);
        drop(device);
        let after: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        assert!(after == array.members, "{name}");
    }
}
