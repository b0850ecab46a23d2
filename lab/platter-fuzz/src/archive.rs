//! Several files as one text: each begins with a line `=== NAME`.

use crate::rng::Rng;
use crate::text;
use std::fs;
use std::io;
use std::path::Path;

/// Files with their names. [`Archive::unpack`] decides which names are valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive(pub Vec<(String, Vec<u8>)>);

/// Most files of an archive.
const MOST_FILES: usize = 32;

const MARK: &[u8] = b"=== ";

/// A temporary folder, in memory where the system has a file system for that: runs on a disk are 30 times slower.
///
/// # Errors
/// It cannot be made.
pub fn folder() -> Result<tempfile::TempDir, String> {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.map_err(|error| format!("no folder for files: {error}"))
}

impl Archive {
    /// Decodes an archive; text before the first file is ignored.
    pub fn decode(input: &[u8]) -> Archive {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for line in input.split_inclusive(|byte| *byte == b'\n') {
            if let Some(name) = line.strip_prefix(MARK).filter(|_| files.len() < MOST_FILES) {
                files.push((String::from_utf8_lossy(name).trim_end().to_owned(), Vec::new()));
            } else if let Some((_, contents)) = files.last_mut() {
                contents.extend(line);
            }
        }
        Archive(files)
    }

    /// The bytes of the archive.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, contents) in &self.0 {
            out.extend(MARK);
            out.extend(name.as_bytes());
            out.push(b'\n');
            out.extend(contents);
            if contents.last().is_some_and(|byte| *byte != b'\n') {
                out.push(b'\n');
            }
        }
        out
    }

    /// Writes the files into a folder. Names that lead out of it are left out, and so are those that no file can have.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn unpack(&self, folder: &Path) -> io::Result<()> {
        for (name, contents) in &self.0 {
            let ordinary = |part: &str| !part.is_empty() && part.len() < 200 && part != "." && part != "..";
            if !name.split('/').all(ordinary) || name.len() > 1000 || name.contains('\0') {
                continue;
            }
            let path = folder.join(name);
            let made =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, contents));
            match made {
                // A file is where a folder would have to be, or the other way round.
                Err(error) if error.kind() != io::ErrorKind::StorageFull => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Changes something at random in one of the files, or one of the names.
    pub fn mutate(&mut self, rng: &mut Rng, other: &Archive, words: &[&str]) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        let at = rng.index(self.0.len());
        match rng.below(24) {
            0 => drop(self.0.remove(at)),
            1 if !other.0.is_empty() && self.0.len() < MOST_FILES => self.0.push(rng.pick(&other.0).clone()),
            2 => {
                let with = rng.index(self.0.len());
                let name = std::mem::take(&mut self.0[with].0);
                self.0[with].0 = std::mem::replace(&mut self.0[at].0, name);
            }
            _ => {
                let others: &[u8] = if other.0.is_empty() { &[] } else { &rng.pick(&other.0).1 };
                text::mutate(rng, &mut self.0[at].1, others, words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_written_read_and_unpacked() {
        let archive =
            Archive(vec![("a/b".into(), b"one\ntwo\n".to_vec()), ("../c".into(), b"out\n".to_vec())]);
        assert_eq!(Archive::decode(&archive.encode()), archive);
        let folder = tempfile::tempdir().expect("a folder");
        archive.unpack(folder.path()).expect("files");
        assert_eq!(fs::read(folder.path().join("a/b")).expect("a file"), b"one\ntwo\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
