use super::*;
use crate::served::Served;
use platter_disk::device::Device;
use platter_remote::nbd::wire::{client_flag, transmission_flag};

fn devices() -> Devices {
    let devices = Devices::default();
    devices.add(Served::new("first", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
    devices.add(Served::new("second", Device::ram(2 << 20).unwrap()).unwrap().read_only()).unwrap();
    devices
}

fn ask(number: u32, data: &[u8]) -> Vec<u8> {
    [&OptionHeader { option: number, length: data.len() as u32 }.to_bytes()[..], data].concat()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let wanted: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let count = (wanted.len() / 2) as u16;
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &count.to_be_bytes(), &wanted].concat()
}

fn context(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// What a conversation ended with.
enum End {
    Open,
    Agreed(Terms, u64),
    StartTls,
    Abort,
    Close(&'static str),
}

/// Gives `input` in pieces of `piece` bytes; the replies and the end.
fn converse(negotiation: &mut Negotiation<'_>, input: &[u8], piece: usize) -> (Vec<u8>, End) {
    let (mut out, mut given, mut used) = (Vec::new(), 0, 0);
    loop {
        let (taken, step) = negotiation.take(&input[used..given], &mut out);
        used += taken;
        match step {
            Step::Again => {}
            Step::NeedMore if given == input.len() => return (out, End::Open),
            Step::NeedMore => given = input.len().min(given + piece),
            Step::StartTls => return (out, End::StartTls),
            Step::Agreed(agreed) => {
                return (out, End::Agreed(agreed.terms, agreed.served.device().size()));
            }
            Step::Abort => return (out, End::Abort),
            Step::Close(why) => return (out, End::Close(why)),
        }
    }
}

fn replies(mut out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((header, rest)) = out.split_first_chunk::<{ OptionReply::BYTES }>() {
        let header = OptionReply::parse(header).expect("a header");
        let (data, rest) = rest.split_at(header.length as usize);
        all.push((header.option, header.kind, data.to_vec()));
        out = rest;
    }
    assert!(out.is_empty());
    all
}

fn flags() -> Vec<u8> {
    (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes().to_vec()
}

#[test]
fn a_whole_negotiation_agrees_whatever_pieces_it_comes_in() {
    let devices = devices();
    let input = [
        flags(),
        ask(option::STRUCTURED_REPLY, b""),
        ask(option::SET_META_CONTEXT, &context("second", &["base:allocation", "x-y:z"])),
        ask(option::GO, &go("second", &[info::BLOCK_SIZE, info::NAME, 99])),
    ]
    .concat();
    let whole = converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, usize::MAX).0;
    for piece in 1..40 {
        let mut negotiation = Negotiation::new(&devices, Encryption::Unavailable);
        let (out, end) = converse(&mut negotiation, &input, piece);
        assert_eq!(out, whole, "{piece}");
        let End::Agreed(terms, size) = end else { panic!("not agreed") };
        assert!(terms.structured && terms.status && terms.read_only);
        assert_eq!((terms.size, size), (2 << 20, 2 << 20));
    }
    let replies = replies(&whole);
    let kinds: Vec<u32> = replies.iter().map(|(_, kind, _)| *kind).collect();
    use option_reply::{ACK, INFO, META_CONTEXT};
    assert_eq!(kinds, [ACK, META_CONTEXT, ACK, INFO, INFO, INFO, ACK]);
    let export = &replies[3].2;
    assert_eq!(export[..10], [&[0, 0][..], &(2u64 << 20).to_be_bytes()].concat());
    let flags = u16::from_be_bytes([export[10], export[11]]);
    assert_ne!(flags & transmission_flag::READ_ONLY, 0);
    assert_ne!(flags & transmission_flag::SEND_DF, 0);
}

#[test]
fn the_old_option_answers_with_or_without_zeroes() {
    let devices = devices();
    for (flags, bytes) in [(3u32, 10), (1, 134), (0, 134)] {
        let input = [&flags.to_be_bytes()[..], &ask(option::EXPORT_NAME, b"first")].concat();
        let (out, end) = converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, 7);
        assert!(matches!(end, End::Agreed(terms, _) if terms.size == 1 << 20));
        assert_eq!(out.len(), bytes);
    }
    let input = [flags(), ask(option::EXPORT_NAME, b"third")].concat();
    let (out, end) = converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, 7);
    assert!(out.is_empty() && matches!(end, End::Close(_)));
}

#[test]
fn exports_are_listed_and_the_default_one_is_the_first() {
    let devices = devices();
    let input = [flags(), ask(option::LIST, b""), ask(option::GO, &go("", &[]))].concat();
    let (out, end) = converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, 1000);
    assert!(matches!(end, End::Agreed(terms, _) if terms.size == 1 << 20 && !terms.structured));
    let replies = replies(&out);
    assert_eq!(replies[0].2[..9], *b"\0\0\0\x05first");
    assert_eq!(replies[1].2[..10], *b"\0\0\0\x06second");
    assert_eq!(replies[2].1, option_reply::ACK);
}

#[test]
fn wrong_options_are_answered_and_the_next_one_works() {
    let devices = devices();
    let too_long = vec![0; MAX_OPTION_BYTES as usize + 1];
    let mut cut = go("first", &[3]);
    cut.pop();
    let mut long_name = go("first", &[]);
    long_name[0] = 0xff;
    for (number, data, kind) in [
        (77, &b"abc"[..], option_reply::ERR_UNSUP),
        (option::EXTENDED_HEADERS, b"", option_reply::ERR_UNSUP),
        (option::STARTTLS, b"", option_reply::ERR_POLICY),
        (option::STARTTLS, b"x", option_reply::ERR_INVALID),
        (option::LIST, b"x", option_reply::ERR_INVALID),
        (option::STRUCTURED_REPLY, b"x", option_reply::ERR_INVALID),
        (option::GO, b"", option_reply::ERR_INVALID),
        (option::GO, &cut, option_reply::ERR_INVALID),
        (option::INFO, &long_name, option_reply::ERR_INVALID),
        (option::GO, &go("third", &[]), option_reply::ERR_UNKNOWN),
        (option::GO, &go("\u{0}", &[]), option_reply::ERR_UNKNOWN),
        (option::LIST_META_CONTEXT, &context("first", &[]), option_reply::ERR_INVALID),
        (option::GO, &too_long, option_reply::ERR_TOO_BIG),
    ] {
        let input = [flags(), ask(number, data), ask(option::GO, &go("first", &[]))].concat();
        for piece in [1, 100, 100_000] {
            let mut negotiation = Negotiation::new(&devices, Encryption::Unavailable);
            let (out, end) = converse(&mut negotiation, &input, piece);
            assert!(matches!(end, End::Agreed(..)), "{number} {kind:#x}");
            assert_eq!((replies(&out)[0].0, replies(&out)[0].1), (number, kind));
        }
    }
}

#[test]
fn contexts_follow_the_last_choice_and_the_same_export() {
    let devices = devices();
    let choose = |name: &str, queries: &[&str]| ask(option::SET_META_CONTEXT, &context(name, queries));
    let chosen = |middle: Vec<u8>, name: &str| {
        let first = ask(option::STRUCTURED_REPLY, b"");
        let input = [flags(), first, middle, ask(option::GO, &go(name, &[]))].concat();
        match converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, 50).1 {
            End::Agreed(terms, _) => terms.status,
            _ => panic!("not agreed"),
        }
    };
    assert!(chosen(choose("first", &["base:allocation"]), "first"));
    assert!(chosen(choose("", &["base:allocation"]), "first"), "the same device by its default name");
    assert!(!chosen(choose("second", &["base:allocation"]), "first"));
    assert!(!chosen(choose("first", &["base:", "other:allocation"]), "first"));
    let twice = [choose("first", &["base:allocation"]), choose("first", &[])].concat();
    assert!(!chosen(twice, "first"));
    let failed = [choose("first", &["base:allocation"]), ask(option::SET_META_CONTEXT, b"?")].concat();
    assert!(!chosen(failed, "first"), "a choice that fails voids the one before");
    let listed = ask(option::LIST_META_CONTEXT, &context("first", &["base:"]));
    let input = [flags(), ask(option::STRUCTURED_REPLY, b""), listed].concat();
    let (out, _) = converse(&mut Negotiation::new(&devices, Encryption::Unavailable), &input, 50);
    assert_eq!(replies(&out)[1].2, *b"\0\0\0\0base:allocation");
}

#[test]
fn required_encryption_lets_nothing_through_before_it() {
    let devices = devices();
    let input = [
        flags(),
        ask(option::LIST, b""),
        ask(option::GO, &go("first", &[])),
        ask(77, b""),
        ask(option::STRUCTURED_REPLY, b""),
        ask(option::STARTTLS, b""),
    ]
    .concat();
    let mut negotiation = Negotiation::new(&devices, Encryption::Required);
    let (out, end) = converse(&mut negotiation, &input, 20);
    assert!(matches!(end, End::StartTls));
    let replies = replies(&out);
    assert!(
        replies[..4].iter().all(|(_, kind, data)| *kind == option_reply::ERR_TLS_REQD && !data.is_empty())
    );
    assert_eq!(replies[4].1, option_reply::ACK);
    negotiation.encrypted();
    let (out, end) = converse(&mut negotiation, &ask(option::STARTTLS, b""), 20);
    assert!(matches!(end, End::Open) && self::replies(&out)[0].1 != option_reply::ACK);
    let (_, end) = converse(&mut negotiation, &ask(option::GO, &go("first", &[])), 20);
    assert!(matches!(end, End::Agreed(..)));
    let old = [flags(), ask(option::EXPORT_NAME, b"first")].concat();
    let (out, end) = converse(&mut Negotiation::new(&devices, Encryption::Required), &old, 20);
    assert!(out.is_empty() && matches!(end, End::Close(_)));
}

#[test]
fn encryption_voids_what_was_agreed_before() {
    let devices = devices();
    let mut negotiation = Negotiation::new(&devices, Encryption::Allowed);
    let first = ask(option::STRUCTURED_REPLY, b"");
    let second = ask(option::SET_META_CONTEXT, &context("first", &["base:allocation"]));
    let (_, end) =
        converse(&mut negotiation, &[flags(), first, second, ask(option::STARTTLS, b"")].concat(), 9);
    assert!(matches!(end, End::StartTls));
    negotiation.encrypted();
    let (_, end) = converse(&mut negotiation, &ask(option::GO, &go("first", &[])), 9);
    assert!(matches!(end, End::Agreed(terms, _) if !terms.structured && !terms.status));
}

#[test]
fn nonsense_ends_the_connection() {
    let devices = devices();
    let end = |input: &[u8]| converse(&mut Negotiation::new(&devices, Encryption::Unavailable), input, 3).1;
    assert!(matches!(end(&[0xff; 4]), End::Close("unknown client flags")));
    assert!(matches!(end(&[flags(), vec![7; 16]].concat()), End::Close(_)));
    assert!(
        matches!(end(&[vec![0; 4], ask(option::LIST, b"")].concat()), End::Close(_)),
        "not fixed newstyle"
    );
    assert!(matches!(end(&[flags(), ask(option::ABORT, b"bye")].concat()), End::Abort));
    let flood = ask(77, b"").repeat(MAX_OPTIONS as usize + 1);
    assert!(matches!(end(&[flags(), flood].concat()), End::Close("too many options")));
    assert!(matches!(end(&[flags(), ask(option::EXPORT_NAME, &vec![b'a'; 20_000])].concat()), End::Close(_)));
    assert!(matches!(end(&[flags(), ask(option::EXPORT_NAME, &[0xff, 0xfe])].concat()), End::Close(_)));
}
