use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Every command, with those that have no layout.
fn all() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().copied().chain([&OTHER_ADMIN, &OTHER_IO])
}

#[test]
fn the_fields_of_each_command_lie_apart_inside_and_off_the_pointers() {
    for command in all() {
        let mut seen = [0u8; ENTRY];
        // Metadata pointer and data pointer; dwords 2 and 3 belong to commands without a layout.
        seen[16..40].fill(0xff);
        for field in COMMON.iter().chain(command.fields) {
            let mut own = [0u8; ENTRY];
            field.fill(&mut own);
            assert!(field.end() <= ENTRY && field.bits <= 64, "{}: {}", command.name, field.name);
            for (at, (seen, own)) in seen.iter_mut().zip(own).enumerate() {
                assert_eq!(
                    *seen & own,
                    0,
                    "{}: {} lies on another field in byte {at}",
                    command.name,
                    field.name
                );
                *seen |= own;
            }
        }
    }
}

#[test]
fn names_and_codes_of_the_table_are_unique_and_found() {
    for row in TABLE {
        assert_eq!(TABLE.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
        assert!(core::ptr::eq(by_code(row.queue, row.opcode), *row), "{}", row.name);
    }
    assert_eq!(by_code(Queue::Io, 0xc1), &OTHER_IO);
    assert_eq!(Entry::of_code(Queue::Admin, 0xc1).opcode(), 0xc1);
}

/// The entries that Linux 6.1 builds in `drivers/nvme/host/core.c` for a discard and a write, by its `struct
/// nvme_rw_command` and `struct nvme_dsm_cmd`.
#[test]
fn entries_are_those_of_linux() {
    let write = Entry::new(&WRITE).with("nsid", 1).with("slba", 0x1_0000_0002).with("nlb", 7).with("fua", 1);
    let mut wanted = [0; ENTRY];
    (wanted[0], wanted[4]) = (0x01, 1);
    wanted[40..48].copy_from_slice(&0x1_0000_0002u64.to_le_bytes());
    // NVME_RW_FUA of the 16 bits of `control`, which follow the length.
    wanted[48..50].copy_from_slice(&7u16.to_le_bytes());
    wanted[50..52].copy_from_slice(&(1u16 << 14).to_le_bytes());
    assert_eq!(write.bytes(), &wanted);
    let discard = Entry::new(&DATASET_MANAGEMENT).with("nsid", 3).with("nr", 1).with("ad", 1);
    assert_eq!((discard.dword(1), discard.dword(10), discard.dword(11)), (3, 1, 1 << 2));
    assert_eq!(discard.data_len(512), Some(32));
    // NVME_WZ_DEAC is bit 9 of `control`.
    assert_eq!(Entry::new(&WRITE_ZEROES).with("deac", 1).dword(12), 1 << 25);
    let log = Entry::new(&GET_LOG_PAGE).with("lid", 2).with("numdl", 0x7f).with("rae", 1);
    assert_eq!((log.dword(10), log.data_len(512)), (0x007f_8002, Some(512)));
}

#[test]
fn the_operation_code_and_fields_of_other_commands_cannot_be_set() {
    let mut read = Entry::new(&READ);
    assert!(!read.set("opcode", 1) && !read.set("cns", 1) && !read.set("nlb", 0x1_0000));
    assert_eq!(read, Entry::new(&READ));
}

proptest! {
    /// Any entry, taken apart and put together again, has the same fields; those that no layout names are kept by decoding.
    #[test]
    fn fields_of_any_entry_build_it_again(bytes in prop::collection::vec(any::<u8>(), ENTRY), row in 0usize..25, io in any::<bool>()) {
        let mut bytes = bytes;
        let queue = if io { Queue::Io } else { Queue::Admin };
        if let Some(command) = TABLE.get(row) {
            bytes[0] = command.opcode;
        }
        let entry = Entry::decode(queue, &bytes).unwrap();
        prop_assert_eq!(&entry.bytes()[..], &bytes[..]);
        let mut again = Entry::of_code(queue, entry.opcode());
        for (name, value) in entry.fields().filter(|(name, _)| *name != "opcode") {
            prop_assert!(again.set(name, value), "{}", name);
        }
        prop_assert_eq!(entry.fields().collect::<Vec<_>>(), again.fields().collect::<Vec<_>>());
        prop_assert!(entry.data_len(4096).is_none_or(|len| len <= 4 << 32));
    }
}
