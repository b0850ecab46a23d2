use super::*;
use crate::format::{Format, read_all};

#[test]
fn lines_as_blkparse_prints_them() {
    let text = "Input file sda.blktrace.0 added\n  \
8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]\n  \
8,0    3        2     0.000001829   697  G  WS 223490 + 8 [kjournald]\n  \
8,0    3        3     0.000002197   697  P   N [kjournald]\n  \
8,0    1        0     0.000002200     0  m   N cfq697 alloced\n  \
8,0    3        5     0.000006870   697 UT   N [kjournald] 1\n  \
8,16   1       10     0.500000001     0  A FWFSM 2056 + 8 <- (8,17) 8\n  \
8,0    3        6     0.000009000   697  X   R 100 / 108 [a b]\n  \
8,0    1        2     1.000177022     0  C  WS 223490 + 8 [0]\n  \
8,0    1        3     1.000177023     0  C  FN 0 [5]\n  \
8,0    1        4     1.000177024     9  Q  DS 8 + 16 [fstrim]\n\
CPU0 (sda):\n Reads Queued: 0\n";
    let items = read_all(Format::Blkparse, text.as_bytes(), "x").unwrap();
    let events: Vec<&Event> = items
        .iter()
        .filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None })
        .collect();
    assert_eq!((events.len(), items.len()), (9, 9 + 3 + 1), "{items:?}");
    let kinds: Vec<_> = events.iter().map(|event| (event.action.letters(), event.direction)).collect();
    assert_eq!(kinds[3], ("UT", Direction::None));
    assert_eq!((events[0].offset, events[0].length, events[0].process), (223_490 * 512, 4096, 697));
    assert_eq!(events[3].extra, Extra::Requests(1));
    assert_eq!(events[4].extra, Extra::From(8 << 20 | 17, 8));
    assert_eq!(events[4].device, Device::Number(8 << 20 | 16));
    assert!(events[4].flags.has(Flags::PREFLUSH.and(Flags::FUA).and(Flags::META)));
    assert_eq!((events[5].extra, events[5].length), (Extra::Cut(108), 0));
    assert_eq!((events[7].error, events[7].time_ns), (5, 1_000_177_023));
    assert_eq!(events[8].direction, Direction::Discard);
}

#[test]
fn wrong_lines_are_errors_with_line_and_field() {
    for (line, words) in [
        ("8,0 0 1 -1.0 5 Q R 1 + 8 [a]", "time `-1.0` is not a time from 0"),
        ("8,0 0 1 1.0 5 Q R 9223372036854775808 + 8 [a]", "sector 9223372036854775808 is not from 0 to"),
        ("8,0 0 1 1.0 5 Q R 18014398509481984 + 8 [a]", "the end is not from 0"),
        ("8,0 0 1 1.0 5 ? R 1 + 8 [a]", "action `?`"),
        ("8,0 0 1 1.0 5 Q Z 1 + 8 [a]", "kind `Z`"),
        ("8.0 0 1 1.0 5 Q R 1 + 8 [a]", "device `8.0` is not MAJOR,MINOR"),
        ("4096,0 0 1 1.0 5 Q R 1 + 8 [a]", "major number `4096` is not a number from 0 to 4095"),
        ("8,0 0 1 1.0 5 Q", "kind is missing"),
        ("8,0 0 1 1.0 5 Q R 1 * 8", "`* 8` is none of"),
        ("8,0 0 1 1.0 5 C R 1 + 8 [70000]", "error `70000` is not a number from 0 to 65535"),
    ] {
        let error =
            read_all(Format::Blkparse, format!("\n{line}\n").as_bytes(), "t.txt").unwrap_err().to_string();
        assert!(error.starts_with("t.txt:2: ") && error.contains(words), "{error}");
    }
}
