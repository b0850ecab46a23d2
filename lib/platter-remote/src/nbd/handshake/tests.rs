use super::*;

fn greeting(flags: u16) -> Vec<u8> {
    [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionReply { option, kind, length: data.len() as u32 };
    [&header.to_bytes()[..], data].concat()
}

fn export_info(size: u64, flags: u16) -> Vec<u8> {
    [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()
}

fn sizes_info(sizes: [u32; 3]) -> Vec<u8> {
    [&info::BLOCK_SIZE.to_be_bytes()[..], &sizes.map(u32::to_be_bytes).concat()].concat()
}

fn listed(name: &str) -> Vec<u8> {
    reply(option::LIST, option_reply::SERVER, &string(name))
}

/// Feeds the pieces one byte at a time; returns the outcome and everything the client has sent.
fn play(mut handshake: Handshake, pieces: &[Vec<u8>]) -> (Result<Option<Outcome>, HandshakeError>, Vec<u8>) {
    let mut sent = Vec::new();
    let bytes = pieces.concat();
    for (at, byte) in bytes.iter().enumerate() {
        match handshake.feed(&[*byte]) {
            Ok(None) => sent.append(handshake.output()),
            end => {
                sent.append(handshake.output());
                assert!(end.is_err() || at + 1 == bytes.len(), "ends with the last byte");
                return (end, sent);
            }
        }
    }
    (Ok(None), sent)
}

const FIXED: u16 = server_flag::FIXED_NEWSTYLE | server_flag::NO_ZEROES;
const FLAGS: u16 = transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH;

#[test]
fn a_full_server_gives_everything() {
    let context = [&7u32.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat();
    let (outcome, sent) = play(
        Handshake::open("disk"),
        &[
            greeting(FIXED),
            reply(option::STRUCTURED_REPLY, option_reply::ACK, &[]),
            reply(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &context),
            reply(option::SET_META_CONTEXT, option_reply::ACK, &[]),
            reply(option::GO, option_reply::INFO, &sizes_info([512, 4096, 1 << 20])),
            reply(option::GO, option_reply::INFO, &[0, 99, 1, 2, 3]),
            reply(option::GO, option_reply::INFO, &export_info(1 << 20, FLAGS)),
            reply(option::GO, option_reply::ACK, &[]),
        ],
    );
    let blocks = Some(BlockSizes { min: 512, preferred: 4096, max: 1 << 20 });
    let export = Export { size: 1 << 20, flags: FLAGS, blocks, structured: true, allocation: Some(7) };
    assert_eq!(outcome, Ok(Some(Outcome::Export(export))));
    assert_eq!(&sent[..4], &3u32.to_be_bytes());
    assert!(sent.windows(4).any(|part| part == b"disk"));
}

#[test]
fn a_server_without_go_is_asked_by_name() {
    for (flags, zeroes) in [(FIXED, 0), (server_flag::FIXED_NEWSTYLE, ZEROES), (0, ZEROES)] {
        let mut pieces = vec![greeting(flags)];
        if flags & server_flag::FIXED_NEWSTYLE != 0 {
            pieces.push(reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[]));
            pieces.push(reply(option::GO, option_reply::ERR_UNSUP, b"what?"));
        }
        pieces.push([&4096u64.to_be_bytes()[..], &FLAGS.to_be_bytes(), &vec![0; zeroes]].concat());
        let (outcome, _) = play(Handshake::open("x"), &pieces);
        let export = Export { size: 4096, flags: FLAGS, blocks: None, structured: false, allocation: None };
        assert_eq!(outcome, Ok(Some(Outcome::Export(export))), "{flags}");
    }
}

#[test]
fn an_unknown_export_is_answered_with_the_names() {
    let begin = [
        greeting(FIXED),
        reply(option::STRUCTURED_REPLY, option_reply::ACK, &[]),
        reply(option::SET_META_CONTEXT, option_reply::ERR_UNKNOWN, &[]),
        reply(option::GO, option_reply::ERR_UNKNOWN, &[]),
    ];
    let all = [&begin[..], &[listed("a"), listed("b"), reply(option::LIST, option_reply::ACK, &[])]].concat();
    let (outcome, sent) = play(Handshake::open("c"), &all);
    assert_eq!(outcome.unwrap_err().to_string(), "the server has no export `c`; it has `a`, `b`");
    assert!(sent.ends_with(&OptionHeader { option: option::ABORT, length: 0 }.to_bytes()));
    let none = [&begin[..], &[reply(option::LIST, option_reply::ERR_POLICY, &[])]].concat();
    let error = play(Handshake::open("c"), &none).0.unwrap_err();
    assert_eq!(error.to_string(), "the server has no export `c`; it does not list those it has");
}

#[test]
fn exports_are_listed() {
    let pieces = [greeting(FIXED), listed(""), listed("two"), reply(option::LIST, option_reply::ACK, &[])];
    let names = vec![String::new(), "two".to_owned()];
    assert_eq!(play(Handshake::list(), &pieces).0, Ok(Some(Outcome::List(names))));
}

#[test]
fn what_is_wrong_is_said() {
    let structured = || reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[]);
    let with = |pieces: &[Vec<u8>]| {
        let all = [&[greeting(FIXED)], pieces].concat();
        play(Handshake::open(""), &all).0.unwrap_err().to_string()
    };
    let go = |kind, data: &[u8]| with(&[structured(), reply(option::GO, kind, data)]);
    for (error, part) in [
        (
            play(Handshake::open(""), &[b"HTTP/1.1 400 ".to_vec()]).0.unwrap_err().to_string(),
            "another service",
        ),
        (with(&[reply(option::STRUCTURED_REPLY, option_reply::ERR_TLS_REQD, &[])]), "demands TLS"),
        (with(&[vec![0; 20]]), "wrong magic number"),
        (with(&[reply(option::GO, option_reply::ACK, &[])]), "answers option 7"),
        (go(option_reply::ACK, &[]), "without telling the size"),
        (go(option_reply::INFO, &[0]), "no type"),
        (go(option_reply::INFO, &[0, 0, 1]), "wrong length"),
        (go(option_reply::INFO, &sizes_info([3, 4096, 8192])), "impossible"),
        (go(option_reply::INFO, &sizes_info([512, 4096, 700])), "impossible"),
        (go(option_reply::ERR_POLICY, b"not you"), "policy forbids it: not you"),
        (go(option_reply::ERR_SHUTDOWN, &[]), "shutting down"),
        (go(0x8000_0099, &[]), "error 0x80000099"),
        (go(77, &[]), "a reply of type 0x4d"),
    ] {
        assert!(error.contains(part), "{error} lacks {part}");
    }
    let old = [&INIT_MAGIC.to_be_bytes()[..], &OLD_STYLE.to_be_bytes()].concat();
    assert!(play(Handshake::open(""), &[old]).0.unwrap_err().to_string().contains("oldstyle"));
    let huge =
        OptionReply { option: option::STRUCTURED_REPLY, kind: 1, length: u32::MAX }.to_bytes().to_vec();
    assert!(with(&[huge]).contains("more than"));
}

#[test]
fn a_list_without_end_is_cut() {
    let mut handshake = Handshake::list();
    assert_eq!(handshake.feed(&greeting(FIXED)), Ok(None));
    let error = (0..=MAX_REPLIES).find_map(|_| handshake.feed(&listed("again")).err());
    assert!(error.unwrap().to_string().contains("more than 10000 replies"));
    assert_eq!(handshake.names.len(), MAX_NAMES);
}

#[test]
fn nothing_is_negotiated_before_the_encryption() {
    let ack = || reply(option::STARTTLS, option_reply::ACK, &[]);
    let mut handshake = Handshake::open("disk").with_tls();
    assert_eq!(handshake.feed(&[greeting(FIXED), ack()].concat()), Ok(Some(Outcome::StartTls)));
    let sent = std::mem::take(handshake.output());
    let starttls = OptionHeader { option: option::STARTTLS, length: 0 }.to_bytes();
    assert_eq!(sent[4..], starttls, "one option, without a name");
    handshake.encrypted();
    let structured = OptionHeader { option: option::STRUCTURED_REPLY, length: 0 }.to_bytes();
    assert_eq!(handshake.output()[..], structured);
    // Bytes that came before the encryption may be from anyone.
    let early = [greeting(FIXED), ack(), reply(option::STRUCTURED_REPLY, option_reply::ACK, &[])].concat();
    let refused = Handshake::open("disk").with_tls().feed(&early);
    assert!(matches!(refused, Err(HandshakeError::Protocol(_))), "{refused:?}");
    for kind in [option_reply::ERR_UNSUP, option_reply::ERR_POLICY] {
        let pieces = [greeting(FIXED), reply(option::STARTTLS, kind, &[])].concat();
        let refused = Handshake::list().with_tls().feed(&pieces);
        assert!(matches!(refused, Err(HandshakeError::NoTls(_))), "{refused:?}");
    }
    let old = Handshake::open("disk").with_tls().feed(&greeting(server_flag::NO_ZEROES));
    assert!(matches!(old, Err(HandshakeError::NoTls(_))), "{old:?}");
}
