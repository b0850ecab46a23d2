//! Requests to the NBD server.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command};
use platter_serve::nbd::terms::{MAX_PAYLOAD_BYTES, Plan, Terms, payload_bytes};
use platter_serve::served::Served;
use std::sync::LazyLock;

pub(super) const TARGET: Target = Target {
    name: "nbd-request",
    summary: "requests to the NBD server, under all terms",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

const SIZES: [u64; 4] = [1 << 20, 1000, (1 << 40) + 100, u64::MAX];

static TERMS: LazyLock<Option<Terms>> = LazyLock::new(|| {
    let served = Served::new("a", Device::null(1 << 20).ok()?).ok()?;
    Some(Terms::of(&served))
});

/// The first byte chooses the terms, headers follow.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = vec![rng.any() as u8];
    let size = SIZES[usize::from(all[0] >> 6)];
    for _ in 0..1 + rng.below(4) {
        let offset = *rng.pick(&[0, 512, 4096, size.saturating_sub(512), size / 2 / 512 * 512]);
        let length = *rng.pick(&[0, 512, 4096, MAX_PAYLOAD_BYTES, 1000]);
        let request = Request {
            flags: if rng.one_in(3) { 1 << rng.below(6) } else { 0 },
            kind: rng.below(10) as u16,
            cookie: rng.any(),
            offset,
            length,
        };
        all.extend(request.to_bytes());
    }
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(4) || input.len() < 1 + Request::BYTES {
        return bytes::mutate(rng, input, other);
    }
    let first = 1 + rng.index((input.len() - 1) / Request::BYTES) * Request::BYTES;
    match rng.below(4) {
        0 => bytes::overwrite(input, first + 4, &(rng.extreme(32) as u32).to_be_bytes()),
        1 => bytes::overwrite(input, first + 24, &(rng.extreme(32) as u32).to_be_bytes()),
        2 => bytes::overwrite(input, first + 16, &rng.extreme(64).to_be_bytes()),
        // Aligned, so that no other check refuses it.
        _ => bytes::overwrite(input, first + 16, &(rng.extreme(64) & !511).to_be_bytes()),
    }
}

fn terms(choice: u8) -> Option<Terms> {
    let mut terms = (*TERMS)?;
    let is = |bit: u8| choice >> bit & 1 != 0;
    (terms.structured, terms.status) = (is(0), is(0) && is(1));
    (terms.read_only, terms.caches) = (is(2), is(3));
    (terms.discards, terms.fast_zeroes) = (is(4), is(5));
    terms.size = SIZES[usize::from(choice >> 6)];
    Some(terms)
}

/// What must hold of a request that is carried out.
fn check(terms: &Terms, request: &Request, plan: Plan) -> Result<(), String> {
    let end = u128::from(request.offset) + u128::from(request.length);
    let block = u64::from(terms.min_block);
    let aligned = request.offset.is_multiple_of(block)
        && (u64::from(request.length).is_multiple_of(block) || end == u128::from(terms.size));
    let inside = end <= u128::from(terms.size) && request.length > 0 && aligned;
    let changes = matches!(plan, Plan::Write { .. } | Plan::Discard { .. } | Plan::Zeroes { .. });
    let transfers = matches!(plan, Plan::Read { .. } | Plan::Write { .. });
    let ranged = changes || transfers || matches!(plan, Plan::ReadAhead | Plan::Status { .. });
    let wrong = (ranged && !inside)
        || (changes && terms.read_only)
        || (transfers && request.length > MAX_PAYLOAD_BYTES)
        || (!terms.status && matches!(plan, Plan::Status { .. }))
        || (payload_bytes(request) > 0) != (request.kind == command::WRITE && request.length > 0);
    hold(!wrong, || format!("{request:?} becomes {plan:?} under {terms:?}"))
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((choice, mut rest)) = input.split_first() else {
        return Ok(Verdict::Refused("no terms".to_owned()));
    };
    let terms = terms(*choice).ok_or("there is no device")?;
    let mut refused = None;
    while let Some((header, more)) = rest.split_first_chunk::<{ Request::BYTES }>() {
        rest = more;
        let Some(request) = Request::parse(header) else {
            return Ok(Verdict::Refused("the magic number is wrong".to_owned()));
        };
        hold(request.to_bytes() == *header, || format!("{request:?} is written as another one"))?;
        match terms.plan(&request) {
            Plan::Refuse { error, message } => {
                hold(error != 0, || format!("{request:?} is refused without an error"))?;
                refused = Some(message);
            }
            plan => check(&terms, &request, plan)?,
        }
    }
    Ok(refused.map_or(Verdict::Accepted, |message| Verdict::Refused(message.to_owned())))
}
