//! Map files: the state of a rescue between runs. The format is that of GNU ddrescue's map files (its manual,
//! "Mapfile structure"), so that programs that show and edit those can be used.

use super::map::{Map, Status};
use platter_disk::sys::SysError;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Longest map file that is read: a line for each block of a large disk is not the map of a few bad spots.
const MAX_BYTES: u64 = 256 << 20;

/// A map file and the contents of its header.
#[derive(Clone)]
pub(super) struct MapFile {
    pub(super) path: PathBuf,
    source: String,
    destination: String,
}

/// The contents of a map file.
pub(super) struct Loaded {
    pub(super) map: Map,
    /// The destination that its head names.
    pub(super) destination: Option<String>,
}

impl MapFile {
    pub(super) fn new(path: &Path, source: &str, destination: &str) -> MapFile {
        let one_line = |text: &str| text.replace(|c: char| c.is_control(), " ");
        MapFile { path: path.to_owned(), source: one_line(source), destination: one_line(destination) }
    }

    /// Reads the file for a source of `size` bytes; `None` if there is none yet.
    ///
    /// # Errors
    /// It cannot be read, is no map, or is that of another source.
    pub(super) fn load(&self, size: u64) -> Result<Option<Loaded>, SysError> {
        let mut bytes = Vec::new();
        match File::open(&self.path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SysError::from_io("read the map", &self.path, &error)),
        }
        let wrong = |what: String| {
            let help = "name the map of this source, or a file that does not exist, to begin a new map";
            SysError::new("use the map", &self.path, what, help)
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(wrong(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let map = parse(&String::from_utf8_lossy(&bytes), size).map_err(wrong)?;
        Ok(Some(map))
    }

    /// Writes the file, so that a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, map: &Map) -> Result<(), SysError> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let aside = self.path.with_file_name(name);
        let result = self.write(&aside, map).and_then(|()| fs::rename(&aside, &self.path)).and_then(|()| {
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        });
        result.map_err(|error| {
            // The first error is the one that matters.
            let _ = fs::remove_file(&aside);
            SysError::from_io("write the map", &self.path, &error).naming_missing_directory()
        })
    }

    fn write(&self, path: &Path, map: &Map) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(self.text(map).as_bytes())?;
        file.sync_all()
    }

    fn text(&self, map: &Map) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("# Mapfile. Created by platter {version}, in the format of GNU ddrescue\n");
        text += &format!("# Source: {}\n# Destination: {}\n", self.source, self.destination);
        // What a program that continues with the map would do next.
        let next = [Status::Untried, Status::Failed, Status::Small, Status::Bad];
        let next =
            next.into_iter().find_map(|status| map.ranges(status).first().map(|range| (range.0, status)));
        let (pos, letter) = next.map_or((map.size(), '+'), |(pos, status)| (pos, status.letter()));
        text += &format!(
            "# current_pos  current_status  current_pass\n0x{pos:08X}     {letter}               1\n"
        );
        text += "#      pos        size  status\n";
        for (start, end, status) in map.parts() {
            text += &format!("0x{start:08X}  0x{:08X}  {}\n", end - start, status.letter());
        }
        text
    }
}

/// The destination in a command line of ddrescue whose options come first: `ddrescue [OPTIONS] SRC DST MAP`.
fn named_by_ddrescue(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [_, .., _, destination, _] if words.len() >= 4 => Some(destination),
        _ => None,
    }
}

/// A number as C writes them.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse(text: &str, size: u64) -> Result<Loaded, String> {
    let head = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let destination =
        head("# Destination: ").or_else(|| head("# Command line: ").and_then(named_by_ddrescue));
    let destination = destination.map(str::to_owned);
    // Comments may also be behind data.
    let data = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let numbered = data.zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let mut lines = numbered.map(|(line, number)| (line.split_whitespace().collect::<Vec<_>>(), number));
    match lines.next() {
        Some((head, _)) if (2..=3).contains(&head.len()) && number(head[0]).is_some() => {}
        Some((_, line)) => {
            return Err(format!("line {line}: expected the current position and status of a map"));
        }
        None => return Err("it has no lines, so it is not a map".to_owned()),
    }
    let mut map = Map::new(size);
    let mut end = 0;
    for (fields, line) in lines {
        let part = || match fields[..] {
            [pos, len, status] if status.len() == 1 => {
                let status = Status::of_letter(status.chars().next()?)?;
                Some((number(pos)?, number(len)?, status))
            }
            _ => None,
        };
        let Some((pos, len, status)) = part() else {
            return Err(format!("line {line}: expected a position, a size and a status (one of ? * / - +)"));
        };
        if pos < end {
            return Err(format!(
                "line {line} begins at {pos}, inside the part before it, which ends at {end}"
            ));
        }
        end = pos.checked_add(len).ok_or_else(|| format!("line {line} ends beyond 2^64"))?;
        if status == Status::Done && len > 0 && end > size {
            return Err(format!(
                "line {line}: the map has bytes as copied up to {end}, but this source has {size} bytes"
            ));
        }
        map.mark(pos, len, status);
    }
    // Maps of ddrescue may describe a part of the source (its option -s) or, of a source whose size it does not know, more.
    if end != size && head("# Source: ").is_some() {
        return Err(format!("the map describes a source of {end} bytes, but this source has {size} bytes"));
    }
    Ok(Loaded { map, destination })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> MapFile {
        MapFile::new(path, "/dev/sdb", "disk\n.img")
    }

    #[test]
    fn a_map_is_written_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("map"));
        assert!(file.load(1 << 20).unwrap().is_none());
        let mut map = Map::new(1 << 20);
        map.mark(0, 65536, Status::Done);
        map.mark(65536, 4096, Status::Bad);
        map.mark(131072, 4096, Status::Failed);
        map.mark(135168, 512, Status::Small);
        for _ in 0..2 {
            file.save(&map).unwrap();
            let loaded = file.load(1 << 20).unwrap().unwrap();
            assert_eq!((loaded.map, loaded.destination.as_deref()), (map.clone(), Some("disk .img")));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        let other = file.load(2 << 20).err().unwrap().to_string();
        assert!(other.contains("1048576 bytes, but this source has 2097152"), "{other}");
    }

    #[test]
    fn a_map_of_ddrescue_is_read() {
        let text = "# Mapfile. Created by GNU ddrescue version 1.23\n# current_pos  current_status  current_pass\n\
                    0x00000000     +               1\n#      pos        size  status\n\
                    0x00000000  0x00010000  +\n0x00010000  512  -\n0x00010200  0x0000FE00  /\n";
        let map = parse(text, 0x20000).unwrap().map;
        assert_eq!(map.bytes(Status::Done), 0x10000);
        assert_eq!(map.ranges(Status::Bad), [(0x10000, 0x10200)]);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for (text, word) in [
            ("", "no lines"),
            ("hello world again twice\n", "line 1"),
            ("0 + 1\n0 100\n", "line 2"),
            ("0 + 1\n0 100 x\n", "line 2"),
            ("0 + 1\n0 0x64 +\n50 50 +\n", "inside"),
            ("0 + 1\n1 0xffffffffffffffff +\n", "2^64"),
            ("# Source: disk\n0 + 1\n0 99 +\n", "99 bytes"),
            ("0 + 1\n0 101 +\n", "copied up to 101"),
        ] {
            let error = parse(text, 100).err().unwrap();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
