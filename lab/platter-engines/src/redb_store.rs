//! redb over a file of the kit: its `StorageBackend`, a load of transactions, and a check.

use crate::fixed_random::in_own_thread;
use platter_kit::files::{File, Files};
use platter_kit::{History, Kit, Outcome};
use platter_sim::rng::Rng;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    StorageError, TableDefinition,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind};

/// The name of the file.
const NAME: &str = "store.redb";

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");

/// Memory that redb may use for pages, in bytes; little, so that it also writes before it commits.
const CACHE: usize = 64 << 10;

type Contents = BTreeMap<u64, Vec<u8>>;

/// A file as redb wants it.
#[derive(Debug)]
struct Backend(File);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.0.read_at(out, offset)? {
            read if read == out.len() => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(data, offset)
    }
}

/// How transactions are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// With a sync between the data and the record that makes it valid.
    pub two_phase: bool,
    /// With the state of the allocator saved, so that opening after a crash repairs less.
    pub quick_repair: bool,
}

/// What the check makes of a database whose creation did not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Creation {
    /// redb refuses a file that has a length and no header. As nothing was stored in it yet, a program can
    /// delete it and start again.
    #[default]
    MayBeRefused,
    /// It must open, as an empty one.
    MustOpen,
}

/// A load for redb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Decides keys and values.
    pub seed: u64,
    /// Transactions.
    pub transactions: u64,
    /// How they are committed.
    pub commits: Commits,
    /// Whether a cut while the database is created may leave a file that cannot be opened.
    pub creation: Creation,
}

/// What the engine has promised.
#[derive(Debug, Default)]
pub struct Promises {
    created: bool,
    history: History<Contents>,
}

impl crate::report::Load for Load {
    type Promises = Promises;

    fn title(&self) -> String {
        let Commits { two_phase, quick_repair } = self.commits;
        let phases = if two_phase || quick_repair { "two" } else { "one" };
        let repair = if quick_repair { ", quick repair" } else { "" };
        format!("redb, {} transactions, commits in {phases} phase(s){repair}", self.transactions)
    }

    fn kit(&self, seed: u64) -> Kit<Files> {
        Kit::with_files(seed, 1)
    }

    fn run(&self, files: &Files, promises: &mut Promises) -> Outcome {
        in_own_thread(|| self.commit_all(files, promises))
    }

    fn check(&self, files: &Files, promises: &Promises) -> Outcome {
        in_own_thread(|| self.check_contents(files, promises))
    }
}

impl Load {
    /// Creates a database and commits transactions. Every fourth one does not wait until it is durable, every
    /// seventh one is given up.
    fn commit_all(&self, files: &Files, promises: &mut Promises) -> Outcome {
        let database = open(files)?;
        promises.created = true;
        let mut rng = Rng::new(self.seed);
        for n in 1..=self.transactions {
            let mut contents = promises.history.latest().clone();
            let mut transaction = database.begin_write()?;
            transaction.set_two_phase_commit(self.commits.two_phase);
            transaction.set_quick_repair(self.commits.quick_repair);
            let is_durable = n % 4 != 0 || self.commits.quick_repair;
            if !is_durable {
                transaction.set_durability(Durability::None)?;
            }
            change(&transaction, &mut contents, &mut rng)?;
            if n % 7 == 0 {
                transaction.abort()?;
                continue;
            }
            promises.history.begin(contents);
            transaction.commit()?;
            if is_durable {
                promises.history.acknowledge();
            }
        }
        Ok(())
    }

    fn check_contents(&self, files: &Files, promises: &Promises) -> Outcome {
        let mut database = match open(files) {
            Err(DatabaseError::Storage(StorageError::Io(error)))
                if error.kind() == ErrorKind::InvalidData
                    && !promises.created
                    && self.creation == Creation::MayBeRefused =>
            {
                return Ok(());
            }
            opened => opened?,
        };
        // `false` says that it repaired something. redb 3.1.3 also says so of some databases that were closed
        // in order and never lost power, so only its errors are findings.
        database.check_integrity()?;
        Ok(promises.history.check(&contents(&database)?)?)
    }
}

/// Opens an empty database and closes it in order, `times` times, and returns what its `check_integrity` answers.
///
/// # Errors
/// Those of redb.
pub fn answers_of_check_integrity(files: &Files, times: usize) -> Result<Vec<bool>, DatabaseError> {
    (0..times).map(|_| open(files)?.check_integrity()).collect()
}

fn open(files: &Files) -> Result<Database, DatabaseError> {
    let file = files.create(NAME).map_err(StorageError::Io)?;
    files.sync_directory().map_err(StorageError::Io)?;
    Builder::new().set_cache_size(CACHE).create_with_backend(Backend(file))
}

/// A few insertions, replacements and removals, the same ones in the table and in `contents`.
fn change(transaction: &redb::WriteTransaction, contents: &mut Contents, rng: &mut Rng) -> Outcome {
    let mut table = transaction.open_table(TABLE)?;
    for _ in 0..1 + rng.below(6) {
        let key = rng.below(40);
        if rng.below(4) == 0 {
            table.remove(key)?;
            contents.remove(&key);
        } else {
            let value = vec![rng.bits() as u8; rng.pick(&[8, 100, 1000, 9000])];
            table.insert(key, value.as_slice())?;
            contents.insert(key, value);
        }
    }
    Ok(())
}

fn contents(database: &Database) -> Result<Contents, Box<dyn Error>> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Contents::new()),
        table => table?,
    };
    let mut contents = Contents::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        contents.insert(key.value(), value.value().to_vec());
    }
    Ok(contents)
}
