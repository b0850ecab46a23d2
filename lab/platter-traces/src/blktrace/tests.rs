use super::*;
use crate::format::{Format, read_all};
use crate::sink::Sink;

/// Two notes and three events, as this machine writes them.
fn trace() -> Vec<u8> {
    let event = |time_ns, action, flags| Event {
        action,
        flags,
        sequence: 3,
        process: 77,
        ..Event::arrival(time_ns, Direction::Write, 4096, 8192, Device::Number(8 << 20 | 1))
    };
    let items = [
        Item::Note(Note::Start { time_ns: 5, wall_ns: 1_700_000_000_000_000_001 }),
        Item::Note(Note::Process { number: 77, name: "writer".into() }),
        Item::Event(event(10, Action::Queue, Flags::FUA.and(Flags::PREFLUSH))),
        Item::Event(Event { extra: Extra::From(8 << 20, 99), ..event(11, Action::Remap, Flags::META) }),
        Item::Event(Event { error: 5, ..event(12, Action::Complete, Flags::NONE) }),
    ];
    let mut bytes = Vec::new();
    items.iter().for_each(|item| Writer.item(item, &mut bytes));
    assert_eq!(read_all(Format::Blktrace, &bytes, "x").unwrap(), items);
    bytes
}

/// The records with the numbers of each turned around; data of events keeps its order.
fn turned(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < out.len() {
        let data = usize::from(u16::from_ne_bytes([out[at + 46], out[at + 47]]));
        let is_start = u32::from_ne_bytes(out[at + 28..at + 32].try_into().unwrap()) == (NOTIFY | 1) as u32;
        for (from, len) in
            [(0, 4), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (44, 2), (46, 2)]
        {
            out[at + from..at + from + len].reverse();
        }
        if is_start {
            out[at + 48..at + 52].reverse();
            out[at + 52..at + 56].reverse();
        }
        at += 48 + data;
    }
    out
}

/// The records as the wider ones of version 8.
fn wide(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let old = &bytes[at..at + 48];
        let data = usize::from(u16::from_ne_bytes([old[46], old[47]]));
        out.extend((MAGIC | 8).to_ne_bytes());
        out.extend(&old[4..28]);
        out.extend(&old[32..36]);
        let action = u64::from(u32::from_ne_bytes(old[28..32].try_into().unwrap()));
        out.extend((action | 1 << 40).to_ne_bytes());
        out.extend(&old[36..48]);
        out.extend([0; 12]);
        out.extend(&bytes[at + 48..at + 48 + data]);
        at += 48 + data;
    }
    out
}

#[test]
fn both_orders_and_versions_are_read() {
    let bytes = trace();
    let items = read_all(Format::Blktrace, &bytes, "x").unwrap();
    for other in [turned(&bytes), wide(&bytes)] {
        assert!(is_start(&other) && other != bytes);
        assert_eq!(read_all(Format::Blktrace, &other, "x").unwrap(), items);
    }
}

/// Only version 8 tells a write of zeroes from one of data.
#[test]
fn writes_of_zeroes_are_those_of_version_8() {
    let mut bytes = wide(&trace());
    let zeroes = |bytes: &[u8]| {
        let items = read_all(Format::Blktrace, bytes, "x").unwrap();
        let event = |item: &Item| matches!(item, Item::Event(event) if event.flags.has(Flags::ZEROES));
        items.iter().filter(|item| event(item)).count()
    };
    assert_eq!(zeroes(&bytes), 0);
    // The first event is behind two notes; the category is in the upper half of the action.
    let next = |at: usize| at + 64 + usize::from(u16::from_ne_bytes([bytes[at + 50], bytes[at + 51]]));
    let action = next(next(0)) + 32;
    let field = bytes[action..action + 8].try_into().unwrap();
    bytes[action..action + 8].copy_from_slice(&(u64::from_ne_bytes(field) | ZEROES).to_ne_bytes());
    assert_eq!(zeroes(&bytes), 1);
}

#[test]
fn wrong_traces_are_errors_with_record_and_byte() {
    let bytes = trace();
    let refused = |bytes: &[u8], words: &[&str]| {
        let error = read_all(Format::Blktrace, bytes, "sda.blktrace.0").unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let second = 48 + 8;
    refused(&bytes[..20], &["sda.blktrace.0: record 1 (at byte 0)", "20 of 48 bytes"]);
    refused(&bytes[..second + 2], &["record 2 (at byte 56)", "2 of 48 bytes"]);
    refused(&bytes[..second + 50], &["record 2", "data: 2 of 16 bytes"]);
    let mixed = [&bytes[..second], &turned(&bytes)[second..]].concat();
    refused(&mixed, &["record 2", "another byte order"]);
    let third = second + 48 + 16;
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    refused(&changed(third, &[0; 4]), &["record 3", "magic"]);
    refused(&changed(third, &(MAGIC | 6).to_ne_bytes()), &["record 3", "version 6", "7 and 8"]);
    refused(
        &changed(third + 16, &(1u64 << 63).to_ne_bytes()),
        &["record 3", "sector 9223372036854775808", "2^63"],
    );
    refused(&changed(third + 16, &(1u64 << 54).to_ne_bytes()), &["record 3", "the end is not"]);
}

#[test]
fn what_is_not_known_is_counted() {
    let mut bytes = trace();
    let third = 48 + 8 + 48 + 16;
    let action = u32::from_ne_bytes(bytes[third + 28..third + 32].try_into().unwrap());
    bytes[third + 28..third + 32].copy_from_slice(&(action & !0xff | 200).to_ne_bytes());
    let mut source = Reader::new(&bytes[..], "x");
    let mut count = 0;
    while source.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, source.skipped()), (4, Skipped { unknown: 1, ..Skipped::default() }));
}
