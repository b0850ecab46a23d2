//! Self-describing blocks, as verification reads them back.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_bench::workload::{Verifier, VerifyError};

pub(super) const TARGET: Target = Target {
    name: "blocks",
    summary: "blocks of `bench io --verify`, read back",
    generate,
    mutate,
    read,
    memory: 2 << 20,
};

/// Seed of the run, and bytes of an interval.
const SEED: u64 = 7;
const INTERVAL: usize = 512;

/// Position of the block: the first eight bytes of the input.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let at = if rng.one_in(4) { rng.extreme(64) } else { rng.below(1 << 30) * 512 };
    let mut input = at.to_le_bytes().to_vec();
    let mut block = vec![0; INTERVAL * (1 + rng.below(4) as usize)];
    // A block at an invalid position stays empty.
    let verifier = verifier().filter(|_| at.checked_add(block.len() as u64).is_some());
    let _ = verifier.map(|verifier| verifier.fill(&mut block, at, rng.below(5)));
    input.extend(block);
    input
}

fn verifier() -> Option<Verifier> {
    Verifier::new(SEED, INTERVAL as u32)
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(3) {
        bytes::mutate(rng, input, other);
    } else {
        // Magic, length, offset, seed, generation.
        let field = *rng.pick(&[0usize, 8, 16, 24, 32]);
        let interval = rng.below((input.len() / INTERVAL).max(1) as u64) as usize;
        let number = rng.extreme(if field == 8 { 32 } else { 64 });
        let size = if field == 8 { 4 } else { 8 };
        bytes::overwrite(input, 8 + interval * INTERVAL + field, &number.to_le_bytes()[..size]);
    }
    if rng.one_in(6) {
        bytes::overwrite(input, 0, &rng.extreme(64).to_le_bytes());
    }
    if !rng.one_in(4) {
        for interval in input.get_mut(8..).unwrap_or_default().chunks_exact_mut(INTERVAL) {
            let sum = crc32c::crc32c_append(crc32c::crc32c(&interval[..12]), &interval[16..]);
            bytes::overwrite(interval, 12, &sum.to_le_bytes());
        }
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let (at, block) = (bytes::u64_at(input, 0), input.get(8..).unwrap_or_default());
    let verifier = verifier().ok_or("no verifier")?;
    let told = |error: VerifyError| Ok(Verdict::Refused(format!("{error} ({:?})", error.kind)));
    let generation = match verifier.check(block, at) {
        Ok(generation) => generation,
        Err(error) => return told(error),
    };
    hold(verifier.check_generation(block, at, generation).is_ok(), || format!("not of {generation}"))?;
    let other = verifier.check_generation(block, at, generation.wrapping_add(1));
    hold(other.is_err(), || format!("of {generation} and of another"))?;
    let mut again = vec![0; block.len()];
    verifier.fill(&mut again, at, generation).map_err(|error| error.to_string())?;
    // The payload may differ: only its checksum is believed.
    hold(again[..12] == block[..12], || "the block is filled in another way".to_owned())?;
    Ok(Verdict::Accepted)
}
