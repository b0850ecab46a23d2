//! Every structure: fields lie apart and inside, any bytes can be decoded, and what is set is read back.

use platter_nvme::structure::{Decoded, Structure, Value};
use platter_nvme::{data, identify, log, status};
use proptest::prelude::*;

fn structures() -> Vec<&'static Structure> {
    let identify = (0..=u8::MAX).filter_map(identify::by_cns);
    let logs = (0..=u8::MAX).filter_map(log::by_lid);
    let more = [
        &data::RANGES,
        &data::COPY_RANGES,
        &data::REGISTER,
        &data::ACQUIRE,
        &data::RELEASE,
        data::reservation_status(false),
        data::reservation_status(true),
        &status::COMPLETION,
    ];
    let lists: Vec<&'static Structure> = identify.chain(logs).chain(more).collect();
    let zeroes = vec![0; 4096];
    let items =
        lists.iter().filter_map(|structure| structure.items.as_ref()).map(|list| (list.each)(&zeroes));
    lists.iter().copied().chain(items).collect()
}

#[test]
fn fields_lie_apart_and_inside() {
    for structure in structures() {
        let mut seen = vec![0u8; 4096];
        let stated = (structure.length)(&seen);
        for field in structure.fields {
            let mut own = vec![0u8; 4096];
            field.fill(&mut own);
            assert!(field.end() <= stated.max(4), "{}: {} of {stated}", structure.name, field.name);
            for (seen, own) in seen.iter_mut().zip(own) {
                assert_eq!(*seen & own, 0, "{}: {}", structure.name, field.name);
                *seen |= own;
            }
        }
    }
}

fn check(decoded: &Decoded<'_>) {
    let list: Vec<u8> = decoded.items().iter().flat_map(|item| item.bytes()).copied().collect();
    assert_eq!(list, decoded.list(), "{}", decoded.structure().name);
    decoded.items().iter().for_each(check);
}

proptest! {
    #[test]
    fn any_bytes_can_be_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..600), filled in any::<bool>()) {
        let mut bytes = bytes;
        if filled {
            bytes.resize(4096, 0);
        }
        for structure in structures() {
            check(&structure.decode(&bytes));
        }
    }

    /// Decoding any bytes and encoding the fields gives the bytes, wherever a field has no text.
    #[test]
    fn encoding_is_the_inverse_of_decoding(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        for structure in structures() {
            let decoded = structure.decode(&bytes);
            let mut built = structure.edit(decoded.bytes().to_vec());
            let mut blank = structure.build(decoded.bytes().len());
            for (name, value) in decoded.fields().filter(|(_, value)| !matches!(value, Value::Text(_))) {
                prop_assert!(built.set(name, &value) && blank.set(name, &value), "{}: {}", structure.name, name);
            }
            prop_assert_eq!(built.into_bytes(), decoded.bytes());
            let blank = blank.into_bytes();
            for (name, value) in decoded.fields().filter(|(_, value)| !matches!(value, Value::Text(_))) {
                let again = structure.decode(&blank);
                prop_assert_eq!(again.fields().find(|(field, _)| *field == name), Some((name, value)));
            }
        }
    }
}

#[test]
fn ranges_are_those_of_linux() {
    // As `nvme_setup_discard` of Linux 6.1 fills them: attributes, blocks, first block.
    let mut wanted = [0u8; 32];
    wanted[4..8].copy_from_slice(&8u32.to_le_bytes());
    wanted[8..16].copy_from_slice(&0x1_0000_0000u64.to_le_bytes());
    wanted[20..24].copy_from_slice(&1u32.to_le_bytes());
    wanted[24..32].copy_from_slice(&7u64.to_le_bytes());
    assert_eq!(data::ranges([(0x1_0000_0000, 8), (7, 1)]), wanted);
}
