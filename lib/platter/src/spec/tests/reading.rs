//! The values that `Args` reads, and the rules for tables.

use super::*;
use crate::spec::{Args, check_table};
use std::path::Path;

#[test]
fn values_are_read_by_name_by_place_or_by_default() -> Result<(), SpecError> {
    let spec = spec("file(/dev/sdb, elevator=cfq(quantum=8), depth=128, direct=no, timeout=1.5s)");
    let mut args = Args::new(&spec, &file())?;
    assert_eq!(args.path("path")?, Path::new("/dev/sdb"));
    assert_eq!(args.one_of("driver")?, "uring");
    assert_eq!(args.int("depth")?, 128);
    assert!(!args.flag("direct")?);
    assert_eq!(args.time("timeout")?, Duration::from_millis(1500));
    assert_eq!(args.nested("elevator")?.to_string(), "cfq(quantum=8)");
    assert!(args.is_given("depth") && args.is_given("path") && !args.is_given("driver"));
    args.finish()
}

#[test]
fn an_unnamed_parameter_may_be_named() -> Result<(), SpecError> {
    for text in ["null(1T)", "null(size=1T)", "null(depth=1, 1T)", r#"null("1T")"#] {
        assert_eq!(Args::new(&spec(text), &null())?.size("size")?, 1 << 40, "{text}");
    }
    Ok(())
}

#[test]
fn a_nested_name_may_stand_alone() -> Result<(), SpecError> {
    let given = spec("null(1G, elevator=deadline)");
    assert_eq!(Args::new(&given, &null())?.nested("elevator")?.to_string(), "deadline()");
    let default = spec("null(1G)");
    assert_eq!(Args::new(&default, &null())?.nested("elevator")?.to_string(), "none()");
    Ok(())
}

#[test]
fn members_are_devices_in_their_order() -> Result<(), SpecError> {
    let spec = spec(r#"raid0(b.img, null, chunk=4K, "null")"#);
    let mut args = Args::new(&spec, &raid0())?;
    let members: Vec<String> = args.devices().iter().map(|member| member.to_string()).collect();
    assert_eq!(members, ["file(b.img)", "null()", r#"file("null")"#]);
    assert_eq!(args.size("chunk")?, 4096);
    args.finish()
}

#[test]
fn a_named_device_follows_the_same_rules() -> Result<(), SpecError> {
    for (text, device) in [
        ("file(a, journal=b)", "file(b)"),
        ("file(a, journal=null)", "null()"),
        ("file(a, journal=ram(1G))", "ram(1G)"),
    ] {
        assert_eq!(Args::new(&spec(text), &file())?.device("journal")?.to_string(), device);
    }
    let error = Args::new(&spec("file(a, journal=rom(1G))"), &file()).unwrap_err();
    assert_eq!((error.kind(), error.span()), (SpecErrorKind::UnknownDevice, 16..19));
    Ok(())
}

#[test]
fn optional_is_none_only_without_value_and_default() -> Result<(), SpecError> {
    let bare = spec("null");
    let mut args = Args::new(&bare, &null())?;
    assert_eq!(args.optional("size", Args::size)?, None);
    assert_eq!(args.optional("depth", Args::int)?, Some(64));
    let given = spec("null(4K)");
    assert_eq!(Args::new(&given, &null())?.optional("size", Args::size)?, Some(4096));
    Ok(())
}

#[test]
fn what_is_given_must_be_read() -> Result<(), SpecError> {
    let text = spec("null(1G, depth=8)");
    let mut args = Args::new(&text, &null())?;
    args.size("size")?;
    let error = args.finish().unwrap_err();
    assert_eq!((error.kind(), error.span()), (SpecErrorKind::Unused, 9..16));

    let text = spec("raid0(a, b)");
    let error = Args::new(&text, &raid0())?.finish().unwrap_err();
    assert_eq!((error.kind(), error.span()), (SpecErrorKind::Unused, 6..7));
    Ok(())
}

#[test]
fn a_device_that_reads_what_it_did_not_declare_is_told() -> Result<(), SpecError> {
    let spec = spec("null(1G)");
    let mut args = Args::new(&spec, &null())?;
    for result in [args.int("size").map(drop), args.int("sise").map(drop)] {
        assert_eq!(result.unwrap_err().kind(), SpecErrorKind::Table);
    }
    assert_eq!(args.optional("sise", Args::size).unwrap_err().kind(), SpecErrorKind::Table);
    const BAD: Argument = Argument { default: "1X", ..SIZE };
    let bad = Signature { unnamed: &[], tables: &[&[BAD]], devices: 0..=0 };
    let null = super::spec("null");
    assert_eq!(Args::new(&null, &bad)?.size("size").unwrap_err().kind(), SpecErrorKind::Table);
    Ok(())
}

#[test]
fn tables_are_checked() {
    for signature in [null(), raid0(), file()] {
        assert_eq!(check_table(signature.tables), Ok(()));
    }
    let wrong: [(&[Argument], &str); 6] = [
        (&[SIZE, CHUNK, SIZE], "parameter `size`: two rows have this name"),
        (&[Argument { name: "my size", ..SIZE }], "parameter `my size`: this name cannot be written"),
        (&[Argument { help: "", ..SIZE }], "parameter `size`: it has no help"),
        (
            &[Argument { kind: ArgumentKind::Int { min: 2, max: 1 }, ..SIZE }],
            "parameter `size`: no value is allowed",
        ),
        (&[Argument { kind: ArgumentKind::Choice(&[]), ..SIZE }], "parameter `size`: no value is allowed"),
        (
            &[Argument { default: "1K", ..CHUNK }],
            "parameter `chunk`: its default: expected a size from 4K to 1G, found `1K`",
        ),
    ];
    for (table, message) in wrong {
        assert_eq!(check_table(&[table]), Err(message.to_owned()));
    }
}
