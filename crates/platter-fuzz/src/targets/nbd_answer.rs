//! What an NBD server sends while the client negotiates.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::planted::Planted;
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
    planted: Planted::NbdNameLength,
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

/// A server's side: the first byte says whether the client lists.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let lists = rng.one_in(2);
    let mut all = vec![u8::from(lists)];
    all.extend(greeting(rng));
    if lists {
        for name in ["a", "another", ""].iter().take(rng.index(4)) {
            let data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), b"text"].concat();
            all.extend(answer(option::LIST, option_reply::SERVER, &data));
        }
        all.extend(answer(option::LIST, option_reply::ACK, &[]));
        return all;
    }
    let refuses = if rng.one_in(3) { option_reply::ERR_UNSUP } else { option_reply::ACK };
    all.extend(answer(option::STRUCTURED_REPLY, refuses, &[]));
    if refuses == option_reply::ACK {
        let context = [&7u32.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat();
        all.extend(answer(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &context));
        all.extend(answer(option::SET_META_CONTEXT, option_reply::ACK, &[]));
    }
    all.extend(answer(option::GO, option_reply::INFO, &an_export(rng)));
    all.extend(answer(option::GO, option_reply::INFO, &sizes(rng)));
    all.extend(answer(option::GO, option_reply::ACK, &[]));
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
fn converse(input: &[u8], lists: bool, piece: usize) -> Result<Option<Outcome>, String> {
    let mut handshake = if lists { Handshake::list() } else { Handshake::open("a") };
    for part in input.chunks(piece.max(1)) {
        if let Some(outcome) = handshake.feed(part).map_err(|error| error.to_string())? {
            return Ok(Some(outcome));
        }
        handshake.output().clear();
    }
    Ok(None)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((lists, rest)) = input.split_first() else {
        return Ok(Verdict::Refused("nothing was sent".to_owned()));
    };
    let whole = converse(rest, lists & 1 != 0, rest.len());
    // A server that goes on after the end of the negotiation is refused only if the client sees it.
    if let Ok(Some(_)) = whole {
        let pieces = converse(rest, lists & 1 != 0, 1);
        hold(pieces == whole, || format!("{whole:?} becomes {pieces:?} in pieces"))?;
    }
    Ok(match whole {
        Ok(Some(_)) => Verdict::Accepted,
        Ok(None) => Verdict::Refused("the server sends no more".to_owned()),
        Err(why) => Verdict::Refused(why),
    })
}
