//! What a client sends before it has chosen an export of the NBD server.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{BASE_ALLOCATION, OptionHeader, OptionReply, client_flag, option};
use platter_serve::nbd::negotiation::{Encryption, Negotiation, Step};
use platter_serve::nbd::terms::Terms;
use platter_serve::served::{Devices, Served};
use std::sync::LazyLock;

pub(super) const TARGET: Target = Target {
    name: "nbd-handshake",
    summary: "what an NBD client sends before it has chosen an export",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

static DEVICES: LazyLock<Devices> = LazyLock::new(|| {
    let devices = Devices::default();
    for (name, size) in [("a", 1u64 << 20), ("another", 3 << 20)] {
        let served = Device::null(size).ok().and_then(|device| Served::new(name, device).ok());
        served.and_then(|served| devices.add(served).ok());
    }
    devices
});

fn text(rng: &mut Rng) -> Vec<u8> {
    let text = *rng.pick(&["", "a", "another", "none", BASE_ALLOCATION, "base:", "x-a:b", ":", "\u{e9}"]);
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// An option with data of its form.
fn an_option(rng: &mut Rng) -> Vec<u8> {
    let number = *rng.pick(&[1u32, 2, 3, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 10, 11, 99]);
    let mut data = Vec::new();
    match number {
        option::EXPORT_NAME => data.extend_from_slice(&text(rng)[4..]),
        option::INFO | option::GO => {
            data = text(rng);
            let kinds: Vec<u16> = (0..rng.below(5)).map(|_| rng.below(5) as u16).collect();
            data.extend((kinds.len() as u16).to_be_bytes());
            data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            data = text(rng);
            let count = rng.below(4);
            data.extend((count as u32).to_be_bytes());
            (0..count).for_each(|_| data.extend(text(rng)));
        }
        99 => data.resize(rng.below(40) as usize, 7),
        _ => {}
    }
    let mut all = OptionHeader { option: number, length: data.len() as u32 }.to_bytes().to_vec();
    all.extend(data);
    all
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = (client_flag::FIXED_NEWSTYLE | (rng.below(2) as u32) << 1).to_be_bytes().to_vec();
    (0..1 + rng.below(6)).for_each(|_| all.extend(an_option(rng)));
    all
}

/// The place of each option's header.
fn places(input: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (4, Vec::new());
    while let Some(header) = input.get(at..).and_then(|rest| rest.first_chunk()) {
        let Some(header) = OptionHeader::parse(header) else { break };
        found.push(at);
        at += OptionHeader::BYTES + header.length as usize;
    }
    found
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let places = places(input);
    match rng.below(5) {
        0 => bytes::mutate(rng, input, other),
        // A length of a header, or the first one of its data.
        1 | 2 if !places.is_empty() => {
            let at = *rng.pick(&places) + *rng.pick(&[8, 12, 16, 16]);
            bytes::overwrite(input, at, &(rng.extreme(32) as u32).to_be_bytes());
        }
        3 if !places.is_empty() => {
            let (at, new) = (*rng.pick(&places), an_option(rng));
            input.splice(at..at, new);
        }
        _ => input.extend(an_option(rng)),
    }
}

/// Gives the input in pieces: the reply, the terms and why it ended.
fn converse(input: &[u8], piece: usize, encryption: Encryption) -> (Vec<u8>, Option<Terms>, &'static str) {
    let mut negotiation = Negotiation::new(&DEVICES, encryption);
    let (mut out, mut used, mut given) = (Vec::new(), 0, 0);
    loop {
        let (taken, step) = negotiation.take(&input[used..given], &mut out);
        used += taken;
        match step {
            Step::Again => {}
            Step::NeedMore if given == input.len() => return (out, None, "the peer sends no more"),
            Step::NeedMore => given = input.len().min(given + piece),
            Step::StartTls => negotiation.encrypted(),
            Step::Agreed(agreed) => return (out, Some(agreed.terms), ""),
            Step::Abort => return (out, None, "the client ended the negotiation"),
            Step::Close(why) => return (out, None, why),
        }
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let all = [Encryption::Unavailable, Encryption::Allowed, Encryption::Required];
    let encryption = all[input.len() % all.len()];
    let whole = converse(input, usize::MAX, encryption);
    for piece in [1, 13] {
        hold(converse(input, piece, encryption) == whole, || {
            format!("another outcome in pieces of {piece}")
        })?;
    }
    let (out, terms, why) = whole;
    // The replies to options have their form; what comes last may be the answer to `EXPORT_NAME`.
    let mut rest = &out[..];
    while let Some(header) = rest.first_chunk().and_then(OptionReply::parse) {
        let end = OptionReply::BYTES + header.length as usize;
        hold(rest.len() >= end, || format!("a reply of {} bytes is cut off", header.length))?;
        rest = &rest[end..];
    }
    hold(matches!(rest.len(), 0 | 10 | 134), || format!("{} bytes after the replies", rest.len()))?;
    hold(rest.is_empty() || terms.is_some(), || "an answer without terms".to_owned())?;
    match terms {
        Some(terms) => {
            hold([1 << 20, 3 << 20].contains(&terms.size), || format!("{terms:?}"))?;
            hold(!terms.status || terms.structured, || format!("{terms:?}"))?;
            Ok(Verdict::Accepted)
        }
        None => Ok(Verdict::Refused(why.to_owned())),
    }
}
