//! Parity: exclusive or, and sums over the field of 256 elements.
//!
//! Source: H. P. Anvin, *The mathematics of RAID-6*; the field has the polynomial 0x11d and the generator 2.

/// The product of two elements.
pub const fn mul(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// Twice an element.
const fn double(a: u8) -> u8 {
    a << 1 ^ if a & 0x80 != 0 { 0x1d } else { 0 }
}

/// The powers of the generator; the table begins again after 255.
static POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut at = 1;
    while at < 255 {
        powers[at] = double(powers[at - 1]);
        at += 1;
    }
    powers
};

/// A power of the generator.
pub fn power(exponent: u32) -> u8 {
    POWERS[(exponent % 255) as usize]
}

/// The exponent of an element; `None` for 0.
pub fn log(a: u8) -> Option<u32> {
    POWERS.iter().position(|&power| power == a).map(|at| at as u32)
}

/// The inverse of an element. That of 0 is 0.
pub fn inverse(a: u8) -> u8 {
    log(a).map_or(0, |exponent| power(255 - exponent))
}

/// Adds a multiple of a block to another one of the same length.
///
/// # Panics
/// If the lengths differ.
pub fn add_multiple(sum: &mut [u8], factor: u8, block: &[u8]) {
    assert_eq!(sum.len(), block.len(), "blocks of different lengths");
    match factor {
        0 => {}
        1 => sum.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte),
        factor => {
            let mut products = [0; 256];
            (0..=255u8).for_each(|byte| products[byte as usize] = mul(factor, byte));
            sum.iter_mut().zip(block).for_each(|(sum, &byte)| *sum ^= products[byte as usize]);
        }
    }
}

/// A block of a row as a sum of multiples of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum(pub Vec<(Block, u8)>);

/// A block of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Block {
    /// The data of this number, in the order of the array.
    Data(u32),
    /// The exclusive or of all data.
    P,
    /// The sum of all data, each times its power of the generator.
    Q,
}

/// How to compute `wanted` from the blocks of a row that are not in `lost`. `exponents` has the power of each data block in Q;
/// `has_q`: there is a Q. `None`: it cannot be computed.
pub fn recover(wanted: Block, lost: &[Block], exponents: &[u32], has_q: bool) -> Option<Sum> {
    let is_lost = |block: Block| block == wanted || lost.contains(&block);
    let count = exponents.len() as u32;
    let lost_data: Vec<u32> = (0..count).filter(|&at| is_lost(Block::Data(at))).collect();
    let p = !is_lost(Block::P);
    let q = has_q && !is_lost(Block::Q);
    let factor = |at: u32| power(exponents[at as usize]);
    let others = || (0..count).filter(|at| !lost_data.contains(at));
    let with = |first: &[(Block, u8)], of: &dyn Fn(u32) -> u8| {
        let rest = others().map(|at| (Block::Data(at), of(at)));
        Some(Sum(first.iter().copied().chain(rest).filter(|&(_, factor)| factor != 0).collect()))
    };
    match (wanted, &lost_data[..]) {
        (Block::P, []) => with(&[], &|_| 1),
        (Block::Q, []) if has_q => with(&[], &factor),
        (Block::Data(_), [_]) if p => with(&[(Block::P, 1)], &|_| 1),
        (Block::Data(x), [_]) if q => {
            let scale = inverse(factor(x));
            with(&[(Block::Q, scale)], &|at| mul(scale, factor(at)))
        }
        (Block::Data(x), &[first, second]) if p && q => {
            let y = if x == first { second } else { first };
            let scale = inverse(factor(x) ^ factor(y));
            let by_p = mul(scale, factor(y));
            with(&[(Block::P, by_p), (Block::Q, scale)], &|at| by_p ^ mul(scale, factor(at)))
        }
        // P and one of the data, from Q: the lost data is expressed by Q first.
        (Block::P, &[x]) if q => {
            let scale = inverse(factor(x));
            with(&[(Block::Q, scale)], &|at| 1 ^ mul(scale, factor(at)))
        }
        (Block::Q, &[x]) if has_q && p => with(&[(Block::P, factor(x))], &|at| factor(x) ^ factor(at)),
        _ => None,
    }
}

/// Which block of a row is wrong, if only one is: `p` and `q` are the sums of what is stored and what is computed from the data,
/// at any one byte. `None`: more than one is wrong.
pub fn wrong_block(p: u8, q: u8, exponents: &[u32]) -> Option<Block> {
    match (p, q) {
        (0, 0) => None,
        (_, 0) => Some(Block::P),
        (0, _) => Some(Block::Q),
        (p, q) => {
            let exponent = log(mul(q, inverse(p)))?;
            let at = exponents.iter().position(|&own| own % 255 == exponent)?;
            Some(Block::Data(at as u32))
        }
    }
}
