//! The syntax of parameter files (DiskSim 4.0's libparam): typed blocks of `name = value`, lists, comments
//! from `#` to the end of the line, and included files.

use super::error::ImportError;
use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Deepest nesting of blocks, lists and files.
const DEEPEST: u32 = 64;

/// A value with its line.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) file: Rc<PathBuf>,
    pub(super) line: u32,
    pub(super) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A number or a word.
    Word(String),
    /// `[ a, b ]`
    List(Vec<Value>),
    /// `type { … }`
    Block(Block),
}

/// `type name { key = value, … }`
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) fields: Vec<(String, Value)>,
    pub(super) file: Rc<PathBuf>,
    pub(super) line: u32,
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// Top-level blocks, including those of included files.
    pub(super) blocks: Vec<Block>,
    /// `instantiate [ a ] as X`: pairs of name and block.
    pub(super) instances: Vec<(String, String)>,
    /// The tree of components: kind, name, and what hangs below.
    pub(super) topology: Vec<Node>,
}

/// A component of the topology.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) below: Vec<Node>,
}

/// Reads a file and those that it names.
pub(super) fn read(path: &Path) -> Result<Contents, ImportError> {
    read_file(path, None, 0, &Rc::default())
}

/// Longest file, in bytes. Those of real disks have less than a hundredth of it.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the text of a file that the user named, or the file at `named_at`.
pub(super) fn load(path: &Path, named_at: Option<(&Path, u32)>) -> Result<String, ImportError> {
    let unreadable = |what: String| match named_at {
        Some((file, line)) => ImportError::unreadable(file, line, format!("{}: {what}", path.display())),
        None => ImportError::unreadable(path, 0, what),
    };
    let mut bytes = Vec::new();
    let read = std::fs::metadata(path).and_then(|metadata| {
        // A parameter file must not make the reader wait for a pipe or read a device.
        if named_at.is_some() && !metadata.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)
    });
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(format!("it is longer than {MAX_BYTES} bytes")));
    }
    // Old files have other encodings, in comments.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Most files that one disk is read from; a file counts each time that it is named.
const MOST_FILES: u32 = 64;

fn read_file(
    path: &Path,
    named_at: Option<(&Path, u32)>,
    depth: u32,
    files: &Rc<Cell<u32>>,
) -> Result<Contents, ImportError> {
    files.set(files.get() + 1);
    if files.get() > MOST_FILES {
        let (file, line) = named_at.unwrap_or((path, 0));
        let found = format!("{} as one more", path.display());
        return Err(ImportError::new(file, line, format!("at most {MOST_FILES} files in all"), found));
    }
    if let (Some((file, line)), true) = (named_at, depth >= DEEPEST) {
        let found = format!("{} inside itself", path.display());
        return Err(ImportError::new(file, line, "files that do not name each other in a circle", found));
    }
    let text = load(path, named_at)?;
    Reader::new(path, &text, depth, files).contents()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    file: Rc<PathBuf>,
    depth: u32,
    /// Files that were read so far.
    files: Rc<Cell<u32>>,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, text: &'a str, depth: u32, files: &Rc<Cell<u32>>) -> Reader<'a> {
        let files = Rc::clone(files);
        Reader { text, at: 0, line: 1, file: Rc::new(path.to_path_buf()), depth, files }
    }

    fn contents(mut self) -> Result<Contents, ImportError> {
        let mut contents = Contents::default();
        while let Some(c) = self.peek() {
            if c == ',' || c == ';' {
                self.skip();
                continue;
            }
            let word = self.word("a block, source, instantiate or topology")?;
            match word.as_str() {
                "source" => self.source(&mut contents)?,
                "instantiate" => self.instantiate(&mut contents)?,
                "topology" => {
                    let node = self.node()?;
                    contents.topology.push(node);
                }
                _ => {
                    let block = self.block(word)?;
                    contents.blocks.push(block);
                }
            }
        }
        Ok(contents)
    }

    fn source(&mut self, contents: &mut Contents) -> Result<(), ImportError> {
        let named = self.named_file()?;
        contents.blocks.extend(named.blocks);
        contents.instances.extend(named.instances);
        contents.topology.extend(named.topology);
        Ok(())
    }

    fn named_file(&mut self) -> Result<Contents, ImportError> {
        self.peek();
        let line = self.line;
        let name = self.word("the name of a file")?;
        read_file(&beside(&self.file, &name), Some((&self.file, line)), self.depth + 1, &self.files)
    }

    fn instantiate(&mut self, contents: &mut Contents) -> Result<(), ImportError> {
        let names = self.list()?;
        let joint = self.word("`as` and the name of a block")?;
        if joint != "as" {
            return Err(self.error("`as` and the name of a block", format!("`{joint}`")));
        }
        let block = self.word("the name of a block")?;
        for value in names {
            if let Kind::Word(name) = value.kind {
                contents.instances.push((name, block.clone()));
            }
        }
        if self.peek() == Some('{') {
            self.block(block)?;
        }
        Ok(())
    }

    /// `kind name [ … ]`, the brackets with what hangs below.
    fn node(&mut self) -> Result<Node, ImportError> {
        self.deeper()?;
        let kind = self.word("the type of a component")?;
        let name = self.word("the name of a component")?;
        let mut below = Vec::new();
        if self.peek() == Some('[') {
            self.skip();
            loop {
                match self.peek() {
                    Some(']') => break self.skip(),
                    Some(',') => self.skip(),
                    Some(_) => below.push(self.node()?),
                    None => return Err(self.error("`]` at the end of the topology", "the end of the file")),
                }
            }
        }
        self.depth -= 1;
        Ok(Node { kind, name, below })
    }

    /// The rest of a block after its type: an optional name, and the fields in braces.
    fn block(&mut self, kind: String) -> Result<Block, ImportError> {
        self.deeper()?;
        let line = self.line;
        let mut name = String::new();
        while self.peek() != Some('{') {
            if !name.is_empty() {
                name.push(' ');
            }
            name += &self.word(&format!("`{{` after `{kind}`"))?;
        }
        self.skip();
        let mut fields = Vec::new();
        loop {
            match self.peek() {
                Some('}') => break self.skip(),
                Some(',') => self.skip(),
                None => return Err(self.error(format!("`}}` at the end of `{kind}`"), "the end of the file")),
                Some(_) => {
                    let key = self.key()?;
                    let value = self.value()?;
                    fields.push((key, value));
                    match self.peek() {
                        Some(',' | '}') | None => {}
                        Some(_) => {
                            let word = self.rest_of_line();
                            return Err(self.error("`,` or `}` after a value", format!("`{word}`")));
                        }
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(Block { kind, name, fields, file: Rc::clone(&self.file), line })
    }

    fn key(&mut self) -> Result<String, ImportError> {
        let line = self.line;
        let from = self.at;
        let text = self.text;
        while let Some(c) = text[self.at..].chars().next() {
            match c {
                '=' => break,
                '{' | '}' | '[' | ']' | ',' | '#' => {
                    let found = format!("`{}{c}`", text[from..self.at].trim_start());
                    return Err(ImportError::new(&self.file, line, "`name = value`", found));
                }
                _ => self.skip(),
            }
        }
        let key = text[from..self.at].split_whitespace().collect::<Vec<_>>().join(" ");
        if self.at >= text.len() || key.is_empty() {
            return Err(ImportError::new(&self.file, line, "`name = value`", format!("`{key}`")));
        }
        self.skip();
        Ok(key)
    }

    fn value(&mut self) -> Result<Value, ImportError> {
        let first = self.peek();
        let line = self.line;
        let kind = match first {
            Some('[') => Kind::List(self.list()?),
            _ => {
                let word = self.word("a value")?;
                if word == "source" {
                    let blocks = self.named_file()?.blocks;
                    let Some(block) = blocks.into_iter().next() else {
                        let found = "none";
                        return Err(ImportError::new(&self.file, line, "a file with a block", found));
                    };
                    Kind::Block(block)
                } else if self.block_follows() {
                    Kind::Block(self.block(word)?)
                } else {
                    Kind::Word(word)
                }
            }
        };
        Ok(Value { file: Rc::clone(&self.file), line, kind })
    }

    fn list(&mut self) -> Result<Vec<Value>, ImportError> {
        self.deeper()?;
        if self.peek() != Some('[') {
            let found = self.rest_of_line();
            return Err(self.error("a list in brackets", format!("`{found}`")));
        }
        self.skip();
        let mut list = Vec::new();
        loop {
            match self.peek() {
                Some(']') => break self.skip(),
                Some(',') => self.skip(),
                Some(_) => list.push(self.value()?),
                None => return Err(self.error("`]` at the end of a list", "the end of the file")),
            }
        }
        self.depth -= 1;
        Ok(list)
    }

    /// Whether a block's brace comes next, perhaps after its name.
    fn block_follows(&mut self) -> bool {
        match self.peek() {
            Some('{') => true,
            Some(c) if is_word(c) => {
                let rest = self.text[self.at..].trim_start_matches(is_word).trim_start();
                rest.starts_with('{')
            }
            _ => false,
        }
    }

    /// The next character that is neither space nor comment.
    fn peek(&mut self) -> Option<char> {
        loop {
            let c = self.text[self.at..].chars().next()?;
            if c == '#' {
                let rest = &self.text[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if c.is_whitespace() {
                self.skip();
            } else {
                return Some(c);
            }
        }
    }

    fn skip(&mut self) {
        if let Some(c) = self.text[self.at..].chars().next() {
            self.line += u32::from(c == '\n');
            self.at += c.len_utf8();
        }
    }

    fn word(&mut self, expected: &str) -> Result<String, ImportError> {
        match self.peek() {
            Some('"') => {
                self.skip();
                let rest = &self.text[self.at..];
                let Some(len) = rest.find(['"', '\n']).filter(|&len| rest[len..].starts_with('"')) else {
                    let found = self.rest_of_line();
                    return Err(self.error("a closing quote", format!("`{found}`")));
                };
                self.at += len + 1;
                Ok(rest[..len].to_string())
            }
            Some(c) if is_word(c) => {
                let rest = &self.text[self.at..];
                let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                self.at += len;
                Ok(rest[..len].to_string())
            }
            Some(_) => {
                let found = self.rest_of_line();
                Err(self.error(expected, format!("`{found}`")))
            }
            None => Err(self.error(expected, "the end of the file")),
        }
    }

    fn rest_of_line(&self) -> String {
        let line = self.text[self.at..].lines().next().unwrap_or("").trim();
        line.chars().take(60).collect()
    }

    fn deeper(&mut self) -> Result<(), ImportError> {
        self.depth += 1;
        if self.depth > 2 * DEEPEST {
            return Err(self.error(format!("nesting of at most {DEEPEST} levels"), "more"));
        }
        Ok(())
    }

    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> ImportError {
        ImportError::new(&self.file, self.line, expected, found)
    }
}

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '{' | '}' | '[' | ']' | ',' | '=' | '#' | '"')
}

/// A file as named in another one.
pub(super) fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}
