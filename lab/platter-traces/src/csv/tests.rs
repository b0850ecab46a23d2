use crate::event::{Device, Direction, Event, Item, Kind};
use crate::format::{Format, read_all};

fn events(format: Format, text: &str) -> Vec<Event> {
    assert!(format == Format::Reads || Format::detect(text.as_bytes()) == Some(format), "{text}");
    let items = read_all(format, text.as_bytes(), "x").unwrap();
    items
        .into_iter()
        .filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None })
        .collect()
}

fn arrival(time_ns: u64, direction: Direction, offset: u64, length: u64, device: &str) -> Event {
    Event::arrival(time_ns, direction, offset, length, Device::Name(device.into()))
}

#[test]
fn lines_of_each_set_are_read() {
    let [read, write] = [Direction::Read, Direction::Write];
    let msr = events(Format::Msr, "128166372003061629,hm,1,Read,383496192,32768,413\n");
    let first = arrival(1_172_163_600_306_162_900, read, 383_496_192, 32_768, "hm.1");
    assert_eq!(msr, [Event { latency_ns: Some(41_300), ..first }]);
    let systor = events(
        Format::Systor,
        "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,0.000806000,R,0,899056122368,131072\n\
         1456095146.000000000,0.000001000,,4,0,0\n",
    );
    let first = arrival(1_456_095_145_133_076_000, read, 899_056_122_368, 131_072, "0");
    assert_eq!(systor[0], Event { latency_ns: Some(806_000), ..first });
    assert_eq!((systor.len(), systor[1].kind()), (2, Kind::Other));
    let alibaba = events(Format::Alibaba, "419,W,8792731648,16384,1577808000000046\n");
    assert_eq!(alibaba, [arrival(1_577_808_000_000_046_000, write, 8_792_731_648, 16_384, "419")]);
    let tencent = events(Format::Tencent, "1538323200,12910952,128,0,1063\n");
    assert_eq!(tencent, [arrival(1_538_323_200_000_000_000, read, 12_910_952 * 512, 65_536, "1063")]);
    let spc = events(Format::Spc, "0,20941264,8192,W,0.551706,further\n1,20939840,8192,r,0.554041\n");
    assert_eq!(spc[0], arrival(551_706_000, write, 20_941_264 * 512, 8192, "0"));
    assert_eq!((spc.len(), spc[1].direction), (2, read));
    let vscsi = events(
        Format::Vscsi,
        "cmd,ver,sn,len,nSG,lbn,ts,rt\n42,512,1,4096,1,800,5633898611441,17\n0x35,512,2,0,0,0,5633898611500,\n",
    );
    let first = arrival(5_633_898_611_441_000, write, 800 * 512, 4096, "vscsi");
    assert_eq!(vscsi[0], Event { latency_ns: Some(17_000), ..first });
    assert_eq!(vscsi[1].kind(), Kind::Flush);
    let reads = events(Format::Reads, "# thread handle offset length\n3 1 4096 16384\n");
    assert_eq!(reads, [Event { process: 3, ..arrival(0, read, 4096, 16_384, "1") }]);
}

#[test]
fn wrong_lines_are_errors_with_line_field_value_and_range() {
    for (format, text, words) in [
        (Format::Msr, "1,hm,0,Read,0,1,1", "x:1: Timestamp `1` is not from 116444736000000000"),
        (Format::Msr, "128166372003061629,hm,0,Erase,0,1,1", "Type `Erase` is not Read or Write"),
        (
            Format::Msr,
            "128166372003061629,hm,0,Read,9223372036854775808,1,1",
            "the end is not from 0 to 9223372036854775808",
        ),
        (
            Format::Msr,
            "128166372003061629,hm,0,Read,0,4294967296,1",
            "Size `4294967296` is not a number from 0 to 4294967295",
        ),
        (Format::Alibaba, "1,R,0,1,1\n1,R,0,1", "x:2: 4 fields; a line has 5: device_id"),
        (Format::Alibaba, "1,R,-512,1,1", "offset `-512` is not a number from 0"),
        (
            Format::Tencent,
            "1538323200,18446744073709551615,1,0,1",
            "Offset 18446744073709551615 is not from 0",
        ),
        (Format::Systor, "-1.5,0,R,0,0,1", "Timestamp `-1.5` is not a time from 0"),
        (Format::Spc, "0,0,512,w", "4 fields; a line has at least 5"),
        (Format::Vscsi, "ts,lbn\n1,1", "x:1: the first line is `ts,lbn`; it must name cmd, len, lbn and ts"),
        (Format::Vscsi, "cmd,len,lbn,ts\n42,1", "x:2: 2 fields; lbn is field 3"),
        (Format::Reads, "0 0 0", "a line has 4 fields"),
        (
            Format::Iolog3,
            "fio version 3 iolog\n0 a add\n-5 a read 0 1",
            "x:3: time `-5` is not a time from 0",
        ),
        (Format::Iolog3, "fio version 3 iolog\n5 a wait 0 1", "wait has no meaning in version 3"),
        (Format::Iolog2, "fio version 2 iolog\na sync", "x:2: `a sync` is neither FILE add"),
        (Format::Iolog2, "fio version 9 iolog\n", "x:1: the first line is `fio version 9 iolog`"),
    ] {
        let error = read_all(format, text.as_bytes(), "x").unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let long = format!("1,R,0,1,1\n{}\n1,R,0,1,2\n", "9".repeat(10 << 20));
    let mut source = Format::Alibaba.read(long.as_bytes(), "x");
    assert!(source.next().unwrap().is_some());
    let error = source.next().unwrap_err();
    assert!(error.to_string().contains("x:2: the line has more than 65536 bytes: 999"), "{error}");
    assert!(!error.is_end && source.next().unwrap().is_some() && source.next().unwrap().is_none());
}

#[test]
fn names_of_blktrace_files_are_known() {
    for (name, format) in [
        ("sda.blktrace.0", Some(Format::Blktrace)),
        ("sda.blktrace.113", Some(Format::Blktrace)),
        ("t.dump", Some(Format::Blktrace)),
        ("t.iolog", Some(Format::Iolog3)),
        ("t.blkparse", Some(Format::Blkparse)),
        ("t.csv", None),
        ("notes.0", None),
    ] {
        assert_eq!(Format::of_name(name), format, "{name}");
    }
}
