//! Every array of the kernel is read, whole and with every loss that it survives.

use crate::images::{Array, array, check_contents, expected, names, open, refused};
use std::collections::HashSet;

/// Arrays that were not left whole and in sync.
fn is_special(name: &str) -> bool {
    ["stale", "dirty", "ppl"].iter().any(|word| name.contains(word))
}

/// For each sector of the array the members that have it as it is.
fn places(array: &Array) -> Vec<HashSet<usize>> {
    let mut places = vec![HashSet::new(); (array.size / 512) as usize];
    for (member, bytes) in array.members.iter().enumerate() {
        let begin = if bytes[4096..4100] == 0xa92b_4efcu32.to_le_bytes() { array.data(member) } else { 0 };
        for bytes in bytes[begin..].chunks_exact(512) {
            let number = std::str::from_utf8(&bytes[..15]).ok().and_then(|text| text.parse::<usize>().ok());
            if let Some(number) = number
                && bytes[..16] == bytes[496..]
                && number < places.len()
            {
                places[number].insert(member);
            }
        }
    }
    places
}

/// Whether all of the array can be read without some members.
fn survives(array: &Array, places: &[HashSet<usize>], lost: &HashSet<usize>) -> bool {
    let most = match &array.name[..5] {
        "raid4" | "raid5" => 1,
        "raid6" => 2,
        _ => 0,
    };
    lost.len() <= most || lost.is_empty() || places.iter().all(|on| !on.is_subset(lost))
}

#[test]
fn every_array_is_read_with_every_loss_that_it_survives() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, mut refusals) = (0, 0);
    for name in names().into_iter().filter(|name| !is_special(name)) {
        let array = array(&name);
        let files = array.files(&dir);
        let places = places(&array);
        for set in 0..1u32 << files.len() {
            let lost: HashSet<usize> = (0..files.len()).filter(|member| set >> member & 1 != 0).collect();
            // In any order.
            let left: Vec<String> = (0..files.len())
                .rev()
                .filter(|member| !lost.contains(member))
                .map(|at| files[at].clone())
                .collect();
            if left.is_empty() {
                continue;
            }
            let what = format!("{name} without {lost:?}");
            if survives(&array, &places, &lost) {
                let device = open("", &left).unwrap_or_else(|error| panic!("{what}: {error}"));
                check_contents(&device, array.size, &what);
                opened += 1;
            } else {
                let said = refused("", &left);
                assert!(said.contains("missing"), "{what}: {said}");
                refusals += 1;
            }
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
    assert!(opened > 150 && refusals > 100, "{opened} opened, {refusals} refused");
}

#[test]
fn ranges_at_any_place_are_read_of_degraded_arrays() {
    let dir = tempfile::tempdir().unwrap();
    for (name, lost) in [("raid6-ls-4", vec![1, 2]), ("raid5-ra-4", vec![0]), ("raid10-f2-4", vec![2])] {
        let array = array(name);
        let files = array.files(&dir);
        let left: Vec<String> =
            (0..4).filter(|member| !lost.contains(member)).map(|at| files[at].clone()).collect();
        let device = open("", &left).unwrap();
        let all = expected(array.size);
        let mut seed = 12345u64;
        for _ in 0..300 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pos = (seed >> 33) as usize % (all.len() - 1);
            let len = 1 + (seed >> 13) as usize % 40000.min(all.len() - pos);
            let mut bytes = vec![0; len];
            device.read_at(&mut bytes, pos as u64).unwrap();
            assert!(bytes == all[pos..pos + len], "{name}: {len} bytes at {pos}");
        }
        let past = device.read_at(&mut [0; 512], array.size).unwrap_err();
        assert!(past.to_string().contains(&array.size.to_string()), "{past}");
    }
}
