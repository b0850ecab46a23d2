use super::*;
use crate::{Flushes, Outcome};
use platter_sim::rng::Rng;
use std::collections::BTreeSet;

const NAMES: [&str; 2] = ["log", "table"];
const LONGEST: u64 = 3000;

/// What POSIX permits of one file from its creation to its deletion. Each write has a byte of its own.
#[derive(Clone, Default)]
struct Life {
    now: Vec<u8>,
    lengths: BTreeSet<u64>,
    /// At each offset the bytes that may be found.
    bytes: Vec<BTreeSet<u8>>,
}

impl Life {
    fn write(&mut self, value: u8, at: usize, len: usize) {
        if self.now.len() < at + len {
            self.set_len(at + len);
        }
        self.now[at..at + len].fill(value);
        self.bytes[at..at + len].iter_mut().for_each(|may| {
            may.insert(value);
        });
    }

    fn set_len(&mut self, len: usize) {
        let old = self.now.len();
        self.now.resize(len, 0);
        self.bytes.resize(self.bytes.len().max(len), BTreeSet::new());
        self.bytes[old.min(len)..].iter_mut().for_each(|may| {
            may.insert(0);
        });
        self.lengths.insert(len as u64);
    }

    fn synced(&mut self) {
        self.lengths = [self.now.len() as u64].into();
        self.bytes = self.now.iter().map(|&byte| [byte].into()).collect();
    }

    fn permits(&self, found: &[u8]) -> bool {
        let is_permitted =
            |(at, byte): (usize, &u8)| self.bytes.get(at).is_some_and(|may| may.contains(byte));
        self.lengths.contains(&(found.len() as u64)) && found.iter().enumerate().all(is_permitted)
    }
}

/// What is permitted of both names: indices of lives that may be found, of which the last is the present one.
#[derive(Default)]
struct Model {
    lives: [Vec<Life>; 2],
    may: [BTreeSet<Option<usize>>; 2],
    exists: [bool; 2],
}

impl Model {
    fn now(&self, name: usize) -> Option<usize> {
        self.exists[name].then(|| self.lives[name].len() - 1)
    }

    fn directory_synced(&mut self) {
        self.may = [0, 1].map(|name| [self.now(name)].into());
    }

    fn check(&self, files: &Files) -> Outcome {
        for (name, text) in NAMES.iter().enumerate() {
            let found = files.open(text).map(|file| {
                let mut contents = vec![0; file.len()? as usize + 10];
                let read = file.read_at(&mut contents, 0)?;
                contents.truncate(read);
                io::Result::Ok(contents)
            });
            let found = found.transpose()?;
            let is_permitted = self.may[name].iter().any(|life| match (&found, life) {
                (None, None) => true,
                (Some(found), Some(life)) => self.lives[name][*life].permits(found),
                _ => false,
            });
            // Before the engine has begun there is no file.
            let is_permitted = is_permitted || (self.may[name].is_empty() && found.is_none());
            if !is_permitted {
                return Err(format!(
                    "{text}: found {:?} bytes that are not permitted",
                    found.map(|f| f.len())
                )
                .into());
            }
        }
        Ok(())
    }
}

fn live(seed: u64) -> impl Fn(&Files, &mut Model) -> Outcome {
    move |files, model| {
        let mut rng = Rng::new(seed);
        model.directory_synced();
        for value in 1..=60u8 {
            let name = rng.below(2) as usize;
            let file = files.open(NAMES[name]);
            match (rng.below(10), file) {
                (_, None) => {
                    model.lives[name].push(Life { lengths: [0].into(), ..Life::default() });
                    model.exists[name] = true;
                    let now = model.now(name);
                    model.may[name].insert(now);
                    files.create(NAMES[name])?;
                }
                (0, Some(_)) => {
                    model.exists[name] = false;
                    model.may[name].insert(None);
                    files.delete(NAMES[name])?;
                }
                (1, Some(_)) => {
                    files.sync_directory()?;
                    model.directory_synced();
                }
                (what, Some(file)) => {
                    change(&file, model.lives[name].last_mut().unwrap(), what, value, &mut rng)?
                }
            }
        }
        Ok(())
    }
}

fn change(file: &File, life: &mut Life, what: u64, value: u8, rng: &mut Rng) -> Outcome {
    match what {
        2 | 3 => {
            file.sync()?;
            life.synced();
        }
        4 => {
            life.set_len(0);
            file.set_len(0)?;
        }
        5 => {
            let len = rng.below(LONGEST);
            life.set_len(len as usize);
            file.set_len(len)?;
        }
        _ => {
            let (at, len) = (rng.below(LONGEST - 1000), rng.pick(&[4, 100, 512, 1000]));
            life.write(value, at as usize, len);
            file.write_at(&vec![value; len], at)?;
        }
    }
    let mut contents = vec![0; life.now.len() + 1];
    let read = file.read_at(&mut contents, 0)?;
    assert_eq!((read, &contents[..read]), (life.now.len(), &life.now[..]), "without a cut");
    Ok(())
}

#[test]
fn a_cut_leaves_of_files_what_posix_permits() {
    for seed in 0..4 {
        let kit = Kit::with_files(seed, 2).recovery_tries(1);
        let summary = kit.run(live(seed), |files, model| model.check(files));
        let summary = summary.unwrap_or_else(|failure| panic!("load {seed}: {failure}"));
        assert!(summary.cuts > 300 && summary.recoveries > 100 && summary.differing == 0, "{summary:?}");
        let careless = kit.flushes(Flushes::DropAll).shrink_tries(0);
        careless.run(live(seed), |files, model| model.check(files)).expect_err("nothing was made durable");
    }
}

#[test]
fn a_file_and_its_handle_end_when_it_is_deleted() {
    let files = Files::mount((0..3).map(|_| Device::ram(1 << 20).unwrap()).collect()).unwrap();
    let (a, b) = (files.create("a").unwrap(), files.create("b").unwrap());
    assert_eq!(files.create("c").unwrap_err().kind(), ErrorKind::StorageFull);
    a.write_at(b"first", 0).unwrap();
    files.delete("a").unwrap();
    files.delete("a").unwrap();
    assert_eq!(a.len().unwrap_err().kind(), ErrorKind::NotFound);
    let again = files.create("a").unwrap();
    assert_eq!((again.len().unwrap(), a.sync().unwrap_err().kind()), (0, ErrorKind::NotFound));
    assert!(files.exists("a") && b.is_empty().unwrap());
    let full = again.write_at(&[0; 10], 1 << 20).unwrap_err();
    assert!(full.kind() == ErrorKind::StorageFull && full.to_string().contains("`a`"), "{full}");
    assert_eq!(files.create(&"x".repeat(256)).unwrap_err().kind(), ErrorKind::StorageFull);
    files.delete("b").unwrap();
    assert_eq!(files.create(&"x".repeat(256)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_device_with_something_else_is_refused() {
    let (directory, disk) = (Device::ram(1 << 20).unwrap(), Device::ram(1 << 20).unwrap());
    directory.write_at(b"something", 0).unwrap();
    assert_eq!(Files::mount(vec![directory, disk]).unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(Files::mount(Vec::new()).unwrap_err().kind(), ErrorKind::InvalidInput);
}
