//! Messages about arguments, as their readers see them.

use super::*;
use crate::spec::Args;

/// Reads a spec as the device that it names.
fn read(text: &str) -> SpecError {
    let spec = spec(text);
    let signature = match spec.name() {
        "raid0" => raid0(),
        "null" => null(),
        _ => file(),
    };
    match Args::new(&spec, &signature) {
        Ok(_) => panic!("`{text}` is accepted"),
        Err(error) => error,
    }
}

#[test]
fn unknown_devices() {
    check(
        &refused("riad0(a, b)"),
        SpecErrorKind::UnknownDevice,
        r#"
there is no device called `riad0`
    riad0(a, b)
    ^^^^^
help: did you mean `raid0`?
help: the devices are: cache, concat, file, null, partition, raid0, ram, sim
"#,
    );
    check(
        &refused("mirror(a, b)"),
        SpecErrorKind::UnknownDevice,
        r#"
there is no device called `mirror`
    mirror(a, b)
    ^^^^^^
help: the devices are: cache, concat, file, null, partition, raid0, ram, sim
"#,
    );
    check(
        &read("raid0(a, nul(1G))"),
        SpecErrorKind::UnknownDevice,
        r#"
there is no device called `nul`
    raid0(a, nul(1G))
             ^^^
help: did you mean `null`?
help: the devices are: cache, concat, file, null, partition, raid0, ram, sim
"#,
    );
    check(
        &read(r#"raid0(a, "")"#),
        SpecErrorKind::BadValue,
        r#"
the path of a device is empty
    raid0(a, "")
             ^^
"#,
    );
}

#[test]
fn names_of_arguments() {
    check(
        &read("raid0(chnk=64K, a, b)"),
        SpecErrorKind::UnknownArgument,
        r#"
raid0 has no argument `chnk`
    raid0(chnk=64K, a, b)
          ^^^^
help: did you mean `chunk`?
help: the arguments of raid0 are: chunk
"#,
    );
    check(
        &read("null(1T, qos=3)"),
        SpecErrorKind::UnknownArgument,
        r#"
null has no argument `qos`
    null(1T, qos=3)
             ^^^
help: the arguments of null are: size, elevator, depth
"#,
    );
    check(
        &read("raid0(chunk=64K, a, chunk=1M, b)"),
        SpecErrorKind::DuplicateArgument,
        r#"
`chunk` of raid0 is given twice
    raid0(chunk=64K, a, chunk=1M, b)
                        ^^^^^^^^
help: remove one of the two
"#,
    );
    check(
        &read("null(1T, size=2T)"),
        SpecErrorKind::DuplicateArgument,
        r#"
`size` of null is given twice
    null(1T, size=2T)
             ^^^^^^^
help: remove one of the two
"#,
    );
}

#[test]
fn unnamed_arguments() {
    check(
        &read("null(1T, 2T)"),
        SpecErrorKind::TooManyArguments,
        r#"
null takes only one unnamed argument
    null(1T, 2T)
             ^^
help: write name=value; the names are: size, elevator, depth; put a path with `,` in it in quotes
"#,
    );
    check(
        &read("raid0(a, chunk)"),
        SpecErrorKind::BadValue,
        r#"
`chunk` of raid0 needs a value
    raid0(a, chunk)
             ^^^^^
help: write chunk=…; a file of this name is written ./chunk
help: chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)
"#,
    );
    check(
        &read("raid0(a)"),
        SpecErrorKind::DeviceCount,
        r#"
raid0 stands on 2 to 3 devices, but only one is given
    raid0(a)
    ^^^^^
"#,
    );
    check(
        &read("raid0"),
        SpecErrorKind::DeviceCount,
        r#"
raid0 stands on 2 to 3 devices, but none is given
    raid0
    ^^^^^
"#,
    );
    check(
        &read("raid0(a,b,c,d)"),
        SpecErrorKind::DeviceCount,
        r#"
raid0 stands on 2 to 3 devices, but this is number 4
    raid0(a,b,c,d)
                ^
"#,
    );
}

#[test]
fn sizes_of_the_wrong_kind() {
    check(
        &read("raid0(chunk=64X, a, b)"),
        SpecErrorKind::BadValue,
        r#"
`chunk` of raid0: expected a size, found `64X`
    raid0(chunk=64X, a, b)
                ^^^
help: a size is a number of bytes, optionally with K, M, G, T or P (powers of 1024): 4096, 64K, 1.5G
help: chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)
"#,
    );
    check(
        &read("raid0(chunk=64KB, a, b)"),
        SpecErrorKind::BadValue,
        r#"
`chunk` of raid0: expected a size, found `64KB`
    raid0(chunk=64KB, a, b)
                ^^^^
help: KB may mean 1000 or 1024: write K or KiB for 1024
help: chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)
"#,
    );
    check(
        &read("raid0(chunk=ram(1), a, b)"),
        SpecErrorKind::BadValue,
        r#"
`chunk` of raid0: expected a size from 4K to 1G, found `ram(…)`
    raid0(chunk=ram(1), a, b)
                ^^^^^^
help: write a value without arguments
help: chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)
"#,
    );
}

#[test]
fn times_words_and_switches_of_the_wrong_kind() {
    check(
        &read("file(a, timeout=10)"),
        SpecErrorKind::BadValue,
        r#"
`timeout` of file: expected a time, found `10`
    file(a, timeout=10)
                    ^^
help: a time is a number with ns, us, ms or s: 250us, 1.5ms, 30s
help: timeout: a time from 1ms to 3600s, default 30s (until an I/O is given up)
"#,
    );
    check(
        &read("file(a, driver=uringg)"),
        SpecErrorKind::BadValue,
        r#"
`driver` of file: expected one of the choices, found `uringg`
    file(a, driver=uringg)
                   ^^^^^^
help: did you mean `uring`?
help: driver: one of uring, aio, threads, default uring (how its I/O is done)
"#,
    );
    check(
        &read("file(a, direct=maybe)"),
        SpecErrorKind::BadValue,
        r#"
`direct` of file: expected on or off, found `maybe`
    file(a, direct=maybe)
                   ^^^^^
help: write on, yes, true or 1, or else off, no, false or 0
help: direct: on or off, default on (go past the page cache)
"#,
    );
    check(
        &read("null(1T, elevator=cqf(quantum=1))"),
        SpecErrorKind::BadValue,
        r#"
`elevator` of null: expected one of the choices, found `cqf`
    null(1T, elevator=cqf(quantum=1))
                      ^^^^^^^^^^^^^^
help: did you mean `cfq`?
help: elevator: one of none, deadline, cfq, with its arguments, default none (order of dispatch)
"#,
    );
}

#[test]
fn values_out_of_range() {
    check(
        &read("raid0(chunk=2G, a, b)"),
        SpecErrorKind::OutOfRange,
        r#"
`chunk` of raid0: expected a size from 4K to 1G, found `2G`
    raid0(chunk=2G, a, b)
                ^^
help: chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)
"#,
    );
    check(
        &read("null(1T, depth=0)"),
        SpecErrorKind::OutOfRange,
        r#"
`depth` of null: expected a whole number from 1 to 4096, found `0`
    null(1T, depth=0)
                   ^
help: depth: a whole number from 1 to 4096, default 64 (requests in flight)
"#,
    );
    check(
        &read("file(a, timeout=2ns)"),
        SpecErrorKind::OutOfRange,
        r#"
`timeout` of file: expected a time from 1ms to 3600s, found `2ns`
    file(a, timeout=2ns)
                    ^^^
help: timeout: a time from 1ms to 3600s, default 30s (until an I/O is given up)
"#,
    );
    check(
        &read("null(1T, depth=99999999999999999999)"),
        SpecErrorKind::OutOfRange,
        r#"
`depth` of null: the number `99999999999999999999` is larger than the largest, 18446744073709551615
    null(1T, depth=99999999999999999999)
                   ^^^^^^^^^^^^^^^^^^^^
help: depth: a whole number from 1 to 4096, default 64 (requests in flight)
"#,
    );
    check(
        &read("null(99999P)"),
        SpecErrorKind::OutOfRange,
        r#"
`size` of null: the size `99999P` is larger than the largest, 16384P - 1
    null(99999P)
         ^^^^^^
help: size: a size from 512 to 1P (capacity)
"#,
    );
}

#[test]
fn a_missing_argument() {
    let spec = spec("null");
    let error = Args::new(&spec, &null()).and_then(|mut args| args.size("size")).unwrap_err();
    check(
        &error,
        SpecErrorKind::MissingArgument,
        r#"
null needs the argument `size`
    null
    ^^^^
help: write null(size=…)
help: size: a size from 512 to 1P (capacity)
"#,
    );
}

#[test]
fn an_argument_without_effect() {
    let spec = spec("null(depth=3)");
    check(
        &Args::new(&spec, &null()).and_then(Args::finish).unwrap_err(),
        SpecErrorKind::Unused,
        r#"
`depth` has no effect on this null
    null(depth=3)
         ^^^^^^^
help: remove it, or change the argument that makes it meaningless
"#,
    );
}

#[test]
fn refusals_of_the_user_of_a_spec() -> Result<(), SpecError> {
    let spec = spec("null(4K, depth=3)");
    let args = Args::new(&spec, &null())?;
    check(
        &args.reject("depth", "`depth` of null must be even"),
        SpecErrorKind::Rejected,
        r#"
`depth` of null must be even
    null(4K, depth=3)
                   ^
help: depth: a whole number from 1 to 4096, default 64 (requests in flight)
"#,
    );
    check(
        &args.reject("elevator", "`none` cannot do this").with_help("choose another"),
        SpecErrorKind::Rejected,
        r#"
`none` cannot do this
    null(4K, depth=3)
    ^^^^
help: elevator: one of none, deadline, cfq, with its arguments, default none (order of dispatch)
help: choose another
"#,
    );
    check(
        &spec.reject("null cannot be opened"),
        SpecErrorKind::Rejected,
        r#"
null cannot be opened
    null(4K, depth=3)
    ^^^^^^^^^^^^^^^^^
"#,
    );
    Ok(())
}

#[test]
fn counts_of_devices() {
    let spec = spec("concat()");
    for (devices, expected) in [
        (1..=1, "concat stands on exactly one device, but none is given"),
        (2..=2, "concat stands on exactly 2 devices, but none is given"),
        (1..=usize::MAX, "concat stands on at least one device, but none is given"),
        (3..=usize::MAX, "concat stands on at least 3 devices, but none is given"),
        (1..=9, "concat stands on 1 to 9 devices, but none is given"),
    ] {
        let signature = Signature { unnamed: &[], tables: &[], devices };
        assert_eq!(Args::new(&spec, &signature).unwrap_err().message(), expected);
    }
}
