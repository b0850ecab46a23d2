use super::*;

fn terms() -> Terms {
    Terms {
        size: 1 << 20,
        min_block: 512,
        device_block: 512,
        preferred_block: 4096,
        read_only: false,
        rotational: false,
        discards: true,
        fast_zeroes: true,
        caches: true,
        structured: true,
        status: true,
    }
}

fn request(kind: u16, offset: u64, length: u32) -> Request {
    Request { kind, offset, length, ..Request::default() }
}

fn error_of(terms: &Terms, request: &Request) -> u32 {
    match terms.plan(request) {
        Plan::Refuse { error, .. } => error,
        _ => 0,
    }
}

#[test]
fn each_command_past_the_end_has_the_error_that_the_protocol_names() {
    let (size, terms) = (1 << 20, terms());
    for (kind, wanted) in [
        (command::READ, error::EINVAL),
        (command::WRITE, error::ENOSPC),
        (command::TRIM, error::EINVAL),
        (command::WRITE_ZEROES, error::ENOSPC),
        (command::CACHE, error::EINVAL),
        (command::BLOCK_STATUS, error::EINVAL),
    ] {
        assert_eq!(error_of(&terms, &request(kind, size - 512, 512)), 0, "{kind}");
        for (offset, length) in [(size - 512, 1024), (size, 512), (u64::MAX - 511, 512), (u64::MAX, 1)] {
            assert_eq!(error_of(&terms, &request(kind, offset, length)), wanted, "{kind} {offset}+{length}");
        }
    }
}

#[test]
fn alignment_is_enforced_except_at_an_end_inside_a_block() {
    let mut terms = terms();
    assert_eq!(error_of(&terms, &request(command::READ, 1, 512)), error::EINVAL);
    assert_eq!(error_of(&terms, &request(command::WRITE, 512, 100)), error::EINVAL);
    terms.size = 1000;
    assert_eq!(error_of(&terms, &request(command::READ, 512, 488)), 0);
    assert_eq!(error_of(&terms, &request(command::READ, 512, 487)), error::EINVAL);
}

#[test]
fn a_read_only_export_takes_reads_and_flushes() {
    let terms = Terms { read_only: true, ..terms() };
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert_eq!(error_of(&terms, &request(kind, 0, 512)), error::EPERM);
    }
    assert_eq!(terms.plan(&request(command::FLUSH, 0, 0)), Plan::Nothing);
    assert_eq!(terms.plan(&request(command::READ, 0, 512)), Plan::Read { whole: false });
    assert_eq!(terms.flags() & transmission_flag::SEND_WRITE_ZEROES, 0);
    assert_ne!(terms.flags() & transmission_flag::READ_ONLY, 0);
}

#[test]
fn flags_are_accepted_where_they_are_documented() {
    let all = [
        command_flag::NO_HOLE,
        command_flag::DF,
        command_flag::REQ_ONE,
        command_flag::FAST_ZERO,
        1 << 5,
        1 << 15,
    ];
    let allowed = |kind, flag| match kind {
        command::READ => flag == command_flag::DF,
        command::WRITE_ZEROES => matches!(flag, command_flag::NO_HOLE | command_flag::FAST_ZERO),
        command::BLOCK_STATUS => flag == command_flag::REQ_ONE,
        _ => false,
    };
    for kind in [0, 1, 4, 5, 6, 7] {
        for flag in all {
            let asked = Request { flags: flag | command_flag::FUA, ..request(kind, 0, 512) };
            assert_eq!(error_of(&terms(), &asked) == 0, allowed(kind, flag), "{kind} {flag:#x}");
        }
    }
    let simple = Terms { structured: false, ..terms() };
    let fragment = Request { flags: command_flag::DF, ..request(command::READ, 0, 512) };
    assert_eq!(error_of(&simple, &fragment), error::EINVAL, "not offered");
    assert_eq!(error_of(&terms(), &request(99, 0, 512)), error::EINVAL);
    assert_eq!(error_of(&terms(), &request(command::FLUSH, 512, 0)), error::EINVAL);
}

#[test]
fn fast_zeroes_fail_at_once_where_they_are_not_fast() {
    let zeroes = |flags| Request { flags, ..request(command::WRITE_ZEROES, 0, 4096) };
    let fast = command_flag::FAST_ZERO;
    assert_eq!(terms().plan(&zeroes(fast)), Plan::Zeroes { fua: false, unmap: true });
    assert_eq!(error_of(&terms(), &zeroes(fast | command_flag::NO_HOLE)), error::ENOTSUP);
    let slow = Terms { fast_zeroes: false, ..terms() };
    assert_eq!(error_of(&slow, &zeroes(fast)), error::ENOTSUP);
    assert_eq!(error_of(&slow, &zeroes(0)), 0, "never without the flag");
}

#[test]
fn requests_of_no_bytes_succeed_and_large_ones_are_refused() {
    for kind in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert_eq!(terms().plan(&request(kind, 512, 0)), Plan::Nothing);
    }
    let large = Terms { size: 1 << 40, ..terms() };
    let much = MAX_PAYLOAD_BYTES + 512;
    assert_eq!(error_of(&large, &request(command::READ, 0, much)), error::EOVERFLOW);
    assert_eq!(
        error_of(&Terms { structured: false, ..large }, &request(command::READ, 0, much)),
        error::EINVAL
    );
    assert_eq!(error_of(&large, &request(command::WRITE, 0, much)), error::EINVAL);
    assert_eq!(error_of(&large, &request(command::WRITE, 0, MAX_PAYLOAD_BYTES)), 0);
    for kind in [command::TRIM, command::WRITE_ZEROES, command::BLOCK_STATUS] {
        assert_eq!(error_of(&large, &request(kind, 0, u32::MAX - 511)), 0, "no payload");
    }
    assert_eq!(
        error_of(&Terms { status: false, ..large }, &request(command::BLOCK_STATUS, 0, 512)),
        error::EINVAL
    );
}

#[test]
fn what_is_not_offered_is_refused() {
    let none = Terms { discards: false, caches: false, ..terms() };
    assert_eq!(none.flags() & (transmission_flag::SEND_TRIM | transmission_flag::SEND_CACHE), 0);
    for kind in [command::TRIM, command::CACHE] {
        assert_eq!(error_of(&none, &request(kind, 0, 512)), error::EINVAL);
        assert_eq!(error_of(&none, &request(kind, 0, 0)), error::EINVAL);
        assert_eq!(error_of(&terms(), &request(kind, 0, 512)), 0);
    }
    assert_eq!(error_of(&Terms { read_only: true, ..none }, &request(command::TRIM, 0, 512)), error::EPERM);
}

#[test]
fn a_disk_whose_seeks_take_time_is_told_as_rotational() {
    let flag = |rotational| Terms { rotational, ..terms() }.flags() & transmission_flag::ROTATIONAL;
    assert_eq!((flag(false), flag(true)), (0, transmission_flag::ROTATIONAL));
}

#[test]
fn parts_of_blocks_are_told_from_whole_ones() {
    let odd = Terms { size: 5000, min_block: 1, ..terms() };
    for (offset, length, partial, blocks, whole) in [
        (0, 512, false, 0..512, 0..512),
        (4608, 392, false, 4608..5000, 4608..5000),
        (0, 5000, false, 0..5000, 0..5000),
        (4608, 391, true, 4608..5000, 4608..4608),
        (1, 1, true, 0..512, 2..2),
        (1, 1100, true, 0..1536, 512..1024),
        (4999, 1, true, 4608..5000, 5000..5000),
    ] {
        let asked = request(command::WRITE, offset, length);
        assert_eq!(error_of(&odd, &asked), 0);
        assert_eq!(odd.is_partial(&asked), partial, "{offset}+{length}");
        assert_eq!(odd.blocks(&asked), blocks, "{offset}+{length}");
        assert_eq!(odd.whole_blocks(&asked), whole, "{offset}+{length}");
    }
    assert!(!terms().is_partial(&request(command::READ, 512, 512)));
}
