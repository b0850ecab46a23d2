//! The syntax that the parser accepts, its result, and how it is written back.

use super::*;
use crate::spec::{ArgValue, MAX_DEPTH, MAX_LEN, quote};
use crate::spec::{Args, quote_path};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn canonical(text: &str) -> String {
    spec(text).to_string()
}

#[test]
fn a_bare_path_is_a_file() {
    assert_eq!(canonical("/dev/sdb"), "file(/dev/sdb)");
    assert_eq!(canonical("a.img"), "file(a.img)");
    assert_eq!(canonical("disk"), "file(disk)");
    assert_eq!(canonical(r#" "my disk.img" "#), r#"file("my disk.img")"#);
    assert_eq!(canonical("/dev/disk/by-id/nvme-x_y:1@a#2"), "file(/dev/disk/by-id/nvme-x_y:1@a#2)");
}

#[test]
fn a_bare_uri_is_a_disk_at_a_server_and_may_have_an_equals_sign() {
    let devices = ["file", "nbd", "raid0"];
    for (text, written) in [
        ("nbd://host/disk", "nbd(nbd://host/disk)"),
        ("nbd+unix:///?socket=/run/s", "nbd(nbd+unix:///?socket=/run/s)"),
        (r#""nbds://host/a b""#, r#"nbd("nbds://host/a b")"#),
        ("raid0(nbd://a/x?b=c, d=nbd+unix:///?socket=s)", "raid0(nbd://a/x?b=c, d=nbd+unix:///?socket=s)"),
        ("file(nbd://host)", "file(nbd://host)"),
        ("./nbd://host", "file(./nbd://host)"),
        ("other://host", "file(other://host)"),
    ] {
        let parsed = parse(text, &devices).unwrap();
        assert_eq!(parsed.to_string(), written);
        assert_eq!(parse(written, &devices).unwrap(), parsed, "{written}");
    }
    let unknown = parse("nbd://host", &["file"]).unwrap_err();
    assert!(unknown.to_string().contains("there is no device called `nbd`"), "{unknown}");
    assert_eq!(quote("nbd+unix:///?socket=s"), r#""nbd+unix:///?socket=s""#);
}

#[test]
fn a_known_name_is_a_device_unless_quoted() {
    assert_eq!(canonical("null"), "null()");
    assert_eq!(canonical(r#""null""#), r#"file("null")"#);
    assert_eq!(canonical("./null"), "file(./null)");
}

#[test]
fn calls_nest_and_white_space_and_comments_vanish() {
    let text =
        "cache ( size = 1G ,readahead=ondemand, # two members:\n\traid0(chunk=64K, a.img,\n b.img))#end";
    assert_eq!(canonical(text), "cache(size=1G, readahead=ondemand, raid0(chunk=64K, a.img, b.img))");
    assert_eq!(canonical("file(x, elevator=cfq(quantum=8))"), "file(x, elevator=cfq(quantum=8))");
    assert_eq!(canonical("ram( )"), "ram()");
}

#[test]
fn the_tree_says_what_stands_where() {
    let text = r#"raid0(chunk=64K, "a b", null(1T))"#;
    let spec = spec(text);
    assert_eq!((spec.name(), spec.span(), spec.source()), ("raid0", 0..33, text));
    let [chunk, path, member] = spec.args() else { panic!("{spec:?}") };
    assert_eq!((chunk.name(), chunk.span(), chunk.value().span()), (Some("chunk"), 6..15, 12..15));
    let ArgValue::Word(word) = path.value() else { panic!("{path:?}") };
    assert_eq!((word.text(), word.is_quoted(), word.span()), ("a b", true, 17..22));
    assert_eq!(path.name(), None);
    let ArgValue::Spec(null) = member.value() else { panic!("{member:?}") };
    assert_eq!((null.name(), null.span()), ("null", 24..32));
}

#[test]
fn equality_is_about_content() {
    assert_eq!(spec("raid0( a,b )"), spec("raid0(a, b)"));
    assert_eq!(spec("/dev/sdb"), spec("file(/dev/sdb)"));
    assert_ne!(spec("raid0(a, b)"), spec("raid0(b, a)"));
    assert_ne!(spec("raid0(null)"), spec(r#"raid0("null")"#), "a device, and a file of that name");
    assert_ne!(spec("ram(size=1G)"), spec("ram(1G)"));
}

#[test]
fn quotes_hold_anything() {
    let spec = spec(r#"file("a, (b) = \"c\" \\ \n\r\t \u{1b}\u{e9}#", "")"#);
    let texts: Vec<&str> = spec
        .args()
        .iter()
        .map(|arg| match arg.value() {
            ArgValue::Word(word) => word.text(),
            ArgValue::Spec(spec) => panic!("{spec}"),
        })
        .collect();
    assert_eq!(texts, ["a, (b) = \"c\" \\ \n\r\t \u{1b}é#", ""]);
    assert_eq!(spec.to_string(), r#"file("a, (b) = \"c\" \\ \n\r\t \u{1b}é#", "")"#);
}

#[test]
fn a_path_may_have_bytes_that_are_not_utf_8() {
    let path = |text: &str| match spec(text).args()[0].value() {
        ArgValue::Word(word) => (word.to_path(), word.is_utf8()),
        ArgValue::Spec(spec) => panic!("{spec}"),
    };
    let odd = Path::new(OsStr::from_bytes(b"caf\xe9 \xff.img"));
    assert_eq!(path(r#""caf\xe9 \xff.img""#), (odd.to_path_buf(), false));
    assert_eq!(quote_path(odd), r#""caf\xe9 \xff.img""#);
    assert_eq!(spec(r#""caf\xe9.img""#).to_string(), r#"file("caf\xe9.img")"#);
    // Bytes that make UTF-8 are characters.
    assert_eq!(path(r#""caf\xc3\xa9""#), (Path::new("café").to_path_buf(), true));
    assert_eq!(quote_path(Path::new("a b")), r#""a b""#);
    for wrong in [r#""\x""#, r#""\x4""#, r#""\xg0""#, r#""\x+1""#, r#""\xé""#] {
        assert!(refused(wrong).help().is_some_and(|help| help.contains(r"\xHH")), "{wrong}");
    }
    assert_ne!(spec(r#""\xff""#), spec(r#""\xfe""#));
}

#[test]
fn only_a_path_may_have_bytes_that_are_not_utf_8() {
    let spec = spec(r#"file(a, depth="\xff")"#);
    let error = Args::new(&spec, &file()).unwrap_err();
    assert_eq!(error.kind(), SpecErrorKind::BadValue);
    assert!(error.help().is_some_and(|help| help.contains("only a path")), "{error}");
}

#[test]
fn quote_adds_quotes_only_where_needed() {
    assert_eq!(quote("/dev/sdb"), "/dev/sdb");
    for (text, quoted) in
        [("", r#""""#), ("a b", r#""a b""#), ("#1", r##""#1""##), ("a=b", r#""a=b""#), ("a\\", r#""a\\""#)]
    {
        assert_eq!(quote(text), quoted);
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}a.img{}", "raid0(".repeat(depth), ")".repeat(depth));
    assert_eq!(canonical(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
    let error = refused(&nested(MAX_DEPTH + 1));
    assert_eq!(error.kind(), SpecErrorKind::TooDeep);
    assert_eq!(error.message(), "devices are nested more than 64 deep");
    assert_eq!(error.span().start, MAX_DEPTH * "raid0(".len() + "raid0".len());
    assert_eq!(refused(&"raid0(".repeat(MAX_LEN / 6)).kind(), SpecErrorKind::TooDeep);
}

#[test]
fn siblings_do_not_count_as_nesting() {
    let flat = format!("concat({})", vec!["ram(1G)"; MAX_DEPTH * 2].join(", "));
    assert_eq!(canonical(&flat), flat);
}

#[test]
fn length_is_bounded() {
    let longest = format!("file({})", "x".repeat(MAX_LEN - "file()".len()));
    assert_eq!(canonical(&longest), longest);
    let error = refused(&format!("{longest} "));
    assert_eq!(error.kind(), SpecErrorKind::TooLong);
    assert_eq!(error.to_string(), "the spec is 1048577 bytes long; at most 1048576 are allowed");
}
