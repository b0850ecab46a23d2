//! What an NBD server sends while the client negotiates.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_remote::nbd::handshake::{Handshake, Outcome};
use platter_remote::nbd::wire::{
    BASE_ALLOCATION, INIT_MAGIC, OPTION_MAGIC, OptionReply, info, option, option_reply, server_flag,
};

pub(super) const TARGET: Target = Target {
    name: "nbd-answer",
    summary: "what an NBD server sends before the transmission phase, whole and in pieces",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

fn answer(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionReply { option, kind, length: data.len() as u32 };
    [&header.to_bytes()[..], data].concat()
}

fn an_export(rng: &mut Rng) -> Vec<u8> {
    let size = *rng.pick(&[0, 512, 1 << 20, u64::MAX]);
    [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &(rng.any() as u16).to_be_bytes()].concat()
}

fn sizes(rng: &mut Rng) -> Vec<u8> {
    let sizes = [1u32, 512, 4096, 1 << 25];
    let mut all = info::BLOCK_SIZE.to_be_bytes().to_vec();
    let mut pick = || sizes[rng.index(sizes.len())].to_be_bytes();
    all.extend([pick(), pick(), pick()].concat());
    all
}

fn greeting(rng: &mut Rng) -> Vec<u8> {
    let flags = server_flag::FIXED_NEWSTYLE | if rng.one_in(2) { server_flag::NO_ZEROES } else { 0 };
    [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat()
}

/// Bits of the first byte: what the client wants.
const LISTS: u8 = 1;
const TLS: u8 = 2;

/// Errors that an option may end with.
const ERRORS: [u32; 9] = [
    option_reply::ERR_UNSUP,
    option_reply::ERR_POLICY,
    option_reply::ERR_INVALID,
    option_reply::ERR_PLATFORM,
    option_reply::ERR_TLS_REQD,
    option_reply::ERR_UNKNOWN,
    option_reply::ERR_SHUTDOWN,
    option_reply::ERR_BLOCK_SIZE_REQD,
    option_reply::ERR_TOO_BIG,
];

fn refusal(rng: &mut Rng, option: u32) -> Vec<u8> {
    let kind = if rng.one_in(8) { rng.extreme(32) as u32 } else { *rng.pick(&ERRORS) };
    answer(option, kind, rng.pick(&["", "not today", "\u{1b}["]).as_bytes())
}

fn list(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    // More than the client shows, now and then.
    let count = if rng.one_in(8) { 25 } else { rng.index(4) };
    for name in ["a", "another", ""].iter().cycle().take(count) {
        let data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), b"text"].concat();
        all.extend(answer(option::LIST, option_reply::SERVER, &data));
    }
    match rng.one_in(4) {
        true => all.extend(refusal(rng, option::LIST)),
        false => all.extend(answer(option::LIST, option_reply::ACK, &[])),
    }
    all
}

/// The answer to `EXPORT_NAME`.
fn by_name(rng: &mut Rng) -> Vec<u8> {
    let zeroes = *rng.pick(&[0, 0, 124, 7]);
    [&an_export(rng)[2..], &vec![0; zeroes]].concat()
}

/// What a server says to `GO`.
fn go(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => [answer(option::GO, option_reply::ERR_UNSUP, &[]), by_name(rng)].concat(),
        1 => [answer(option::GO, option_reply::ERR_UNKNOWN, &[]), list(rng)].concat(),
        2 => refusal(rng, option::GO),
        _ => {
            let mut all = answer(option::GO, option_reply::INFO, &an_export(rng));
            all.extend(answer(option::GO, option_reply::INFO, &sizes(rng)));
            if rng.one_in(4) {
                let kind = *rng.pick(&[info::EXPORT, info::BLOCK_SIZE, 2, 99]);
                all.extend(answer(option::GO, option_reply::INFO, &kind.to_be_bytes()[..rng.index(3)]));
            }
            all.extend(answer(option::GO, option_reply::ACK, &[]));
            all
        }
    }
}

/// A server's side. The first byte says what the client wants.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let (lists, tls) = (rng.one_in(3), rng.one_in(6));
    let mut all = vec![if lists { LISTS } else { 0 } | if tls { TLS } else { 0 }];
    all.extend(greeting(rng));
    if rng.one_in(12) {
        // Without fixed newstyle there are no options.
        all[18] &= !(server_flag::FIXED_NEWSTYLE as u8);
        all.extend(by_name(rng));
        return all;
    }
    if tls {
        all.extend(match rng.one_in(4) {
            true => refusal(rng, option::STARTTLS),
            false => answer(option::STARTTLS, option_reply::ACK, &[]),
        });
    }
    if lists {
        all.extend(list(rng));
        return all;
    }
    let has_structured = !rng.one_in(3);
    match has_structured {
        true => all.extend(answer(option::STRUCTURED_REPLY, option_reply::ACK, &[])),
        false => all.extend(refusal(rng, option::STRUCTURED_REPLY)),
    }
    if has_structured && rng.one_in(6) {
        all.extend(refusal(rng, option::SET_META_CONTEXT));
    } else if has_structured {
        let context = [&7u32.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat();
        all.extend(answer(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &context));
        all.extend(answer(option::SET_META_CONTEXT, option_reply::ACK, &[]));
    }
    all.extend(go(rng));
    all
}

/// The place of each reply to an option.
fn places(input: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (19, Vec::new());
    while let Some(header) = input.get(at..).and_then(|rest| rest.first_chunk()) {
        let Some(header) = OptionReply::parse(header) else { break };
        found.push(at);
        at += OptionReply::BYTES + header.length as usize;
    }
    found
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let places = places(input);
    match rng.below(4) {
        0 => bytes::mutate(rng, input, other),
        // The kind or the length of a reply, or the first length of its data.
        1 | 2 if !places.is_empty() => {
            let at = *rng.pick(&places) + *rng.pick(&[12, 16, 20, 20]);
            bytes::overwrite(input, at, &(rng.extreme(32) as u32).to_be_bytes());
        }
        _ => {
            let at = 19 + rng.index(input.len().saturating_sub(18).max(1));
            input.truncate(at.min(input.len()));
            input.extend(answer(option::LIST, option_reply::ACK, &[]));
        }
    }
}

/// Gives the input in pieces; the result, or why it was refused.
fn converse(input: &[u8], wants: u8, piece: usize) -> Result<Option<Outcome>, String> {
    let mut handshake = if wants & LISTS != 0 { Handshake::list() } else { Handshake::open("a") };
    let mut awaits_tls = wants & TLS != 0;
    if awaits_tls {
        handshake = handshake.with_tls();
    }
    let mut rest = input;
    while !rest.is_empty() {
        // What comes in one piece with the start of TLS is refused: it is not encrypted.
        let len = if awaits_tls { 1 } else { piece.clamp(1, rest.len()) };
        let (part, next) = rest.split_at(len);
        rest = next;
        match handshake.feed(part).map_err(|error| error.to_string())? {
            Some(Outcome::StartTls) => {
                awaits_tls = false;
                handshake.encrypted();
            }
            Some(outcome) => return Ok(Some(outcome)),
            None => {}
        }
        handshake.output().clear();
    }
    Ok(None)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((wants, rest)) = input.split_first() else {
        return Ok(Verdict::Refused("nothing was sent".to_owned()));
    };
    let whole = converse(rest, *wants, rest.len());
    // A server that goes on after the end of the negotiation is refused only if the client sees it.
    if let Ok(Some(_)) = whole {
        let pieces = converse(rest, *wants, 1);
        hold(pieces == whole, || format!("{whole:?} becomes {pieces:?} in pieces"))?;
    }
    Ok(match whole {
        Ok(Some(_)) => Verdict::Accepted,
        Ok(None) => Verdict::Refused("the server sends no more".to_owned()),
        Err(why) => Verdict::Refused(why),
    })
}
