//! SQLite over the kit's files: a VFS, a load of transactions, and a check.
//!
//! Database, journal and write-ahead log are files on disks of their own, which lose power together; the index
//! of the log is in memory, which a power cut empties.

mod file;
mod locks;
mod vfs;

use crate::fixed_random::in_own_thread;
use crate::registered::Store;
use platter_kit::files::Files;
use platter_kit::{History, Kit, Outcome};
use platter_sim::rng::Rng;
use rusqlite::{Connection, ErrorCode, ffi, params};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
pub use vfs::Claims;
use vfs::Vfs;

/// The name of the database.
const NAME: &str = "store.db";

/// What is in the table.
pub type Contents = BTreeMap<i64, Vec<u8>>;

/// How SQLite keeps a transaction whole: the setting `journal_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journal {
    /// A rollback journal that is deleted to commit.
    #[default]
    Delete,
    /// A rollback journal that is cut to no bytes to commit.
    Truncate,
    /// A rollback journal whose header is overwritten to commit.
    Persist,
    /// A write-ahead log.
    Wal,
}

/// When SQLite syncs: the setting `synchronous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// With a log only before and after it is copied to the database: commits are not durable until then.
    Normal,
    /// At each commit. With [`Journal::Delete`] a power cut may nevertheless take back the last commit, because
    /// the deletion of the journal is not synced.
    Full,
    /// At each commit, and after the deletion of a journal.
    #[default]
    Extra,
}

/// A load for SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Decides keys and values.
    pub seed: u64,
    /// Transactions.
    pub transactions: u64,
    /// The journal.
    pub journal: Journal,
    /// When it is synced.
    pub synchronous: Synchronous,
    /// What SQLite is told of the disk.
    pub claims: Claims,
}

/// SQLite's random numbers belong to the process, so one engine runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Has SQLite draw the same random numbers again, which it writes into journals and logs.
fn fixed_randomness() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (seed, none): (c_int, *mut ffi::sqlite3) = (1, ptr::null_mut());
    // SAFETY: this request takes an integer and a pointer to a connection, which may be null.
    unsafe { ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PRNG_SEED, seed, none) };
    alone
}

impl crate::report::Load for Load {
    type Promises = History<Contents>;

    fn title(&self) -> String {
        let Load { transactions, journal, synchronous, claims, .. } = self;
        let honest =
            if *claims == Claims::Honest { "" } else { ", a disk that claims to keep the order of writes" };
        format!(
            "SQLite, {transactions} transactions, journal {journal:?}, synchronous {synchronous:?}{honest}"
        )
    }

    /// A disk each for database, journal and log, and one for the directory.
    fn kit(&self, seed: u64) -> Kit<Files> {
        Kit::with_files(seed, 3)
    }

    fn run(&self, files: &Files, history: &mut History<Contents>) -> Outcome {
        in_own_thread(|| {
            let _alone = fixed_randomness();
            let vfs = Vfs::new(files.clone(), self.claims);
            self.commit_all(&vfs, history)
        })
    }

    fn check(&self, files: &Files, history: &History<Contents>) -> Outcome {
        in_own_thread(|| {
            let _alone = fixed_randomness();
            let vfs = Vfs::new(files.clone(), self.claims);
            let store = vfs.open(NAME)?;
            let mut answers = store.prepare("PRAGMA integrity_check")?;
            let answers: Vec<String> = answers.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            if answers != ["ok"] {
                return Err(format!("integrity_check: {}", answers.join("; ")).into());
            }
            Ok(history.check(&contents(&store)?)?)
        })
    }
}

impl Load {
    /// Whether a commit that has returned must survive a power cut.
    fn is_durable(&self) -> bool {
        !(self.journal == Journal::Wal && self.synchronous == Synchronous::Normal)
    }

    /// A connection with the settings of this load.
    fn open<'a>(&self, vfs: &'a Vfs) -> rusqlite::Result<Store<'a>> {
        let store = vfs.open(NAME)?;
        let journal = match self.journal {
            Journal::Delete => "delete",
            Journal::Truncate => "truncate",
            Journal::Persist => "persist",
            Journal::Wal => "wal",
        };
        let synchronous = match self.synchronous {
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        };
        store.execute_batch("PRAGMA page_size = 1024; PRAGMA temp_store = memory")?;
        store.pragma_update(None, "journal_mode", journal)?;
        store.pragma_update(None, "synchronous", synchronous)?;
        // Few pages in memory, so that transactions write before they commit; a short log, so that it is
        // copied to the database often.
        store.execute_batch("PRAGMA cache_size = 6; PRAGMA wal_autocheckpoint = 12")?;
        Ok(store)
    }

    /// Creates a database and commits transactions; every fifth one is rolled back.
    fn commit_all(&self, vfs: &Vfs, history: &mut History<Contents>) -> Outcome {
        let store = self.open(vfs)?;
        let mut reader = None;
        store.execute_batch(
            "CREATE TABLE store (key INTEGER PRIMARY KEY, value BLOB NOT NULL);
             CREATE INDEX by_value ON store (value, key)",
        )?;
        let mut rng = Rng::new(self.seed);
        for n in 1..=self.transactions {
            let mut contents = history.latest().clone();
            store.execute_batch("BEGIN IMMEDIATE")?;
            change(&store, &mut contents, &mut rng)?;
            if n % 5 == 0 {
                store.execute_batch("ROLLBACK")?;
            } else {
                history.begin(contents);
                store.execute_batch("COMMIT")?;
                if self.is_durable() {
                    history.acknowledge();
                }
            }
            if self.journal == Journal::Wal {
                reader = self.read_on(vfs, reader, n, history.latest())?;
            }
        }
        Ok(())
    }

    /// A second connection that reads while the first one writes, so that the log cannot always be copied
    /// completely. It must see the contents of the time when it began.
    fn read_on<'a>(
        &self,
        vfs: &'a Vfs,
        reader: Option<(Store<'a>, Contents)>,
        n: u64,
        now: &Contents,
    ) -> Result<Option<(Store<'a>, Contents)>, Box<dyn Error>> {
        match (reader, n % 4) {
            (None, 1) => {
                let store = self.open(vfs)?;
                store.execute_batch("BEGIN")?;
                if contents(&store)? != *now {
                    return Err("a new reader does not see the last commit".into());
                }
                Ok(Some((store, now.clone())))
            }
            (Some((store, then)), 3) => match contents(&store)? == then {
                true => Ok(None),
                false => Err("what a reader sees has changed".into()),
            },
            (reader, _) => Ok(reader),
        }
    }
}

/// A few insertions, replacements and removals, the same ones in the table and in `contents`.
fn change(store: &Connection, contents: &mut Contents, rng: &mut Rng) -> rusqlite::Result<()> {
    for _ in 0..1 + rng.below(8) {
        let key = rng.below(40) as i64;
        if rng.below(4) == 0 {
            store.execute("DELETE FROM store WHERE key = ?1", [key])?;
            contents.remove(&key);
        } else {
            let value = vec![rng.bits() as u8; rng.pick(&[8, 100, 700, 3000])];
            store.execute("INSERT OR REPLACE INTO store VALUES (?1, ?2)", params![key, value])?;
            contents.insert(key, value);
        }
    }
    Ok(())
}

/// What is in the table; nothing if there is no table yet.
fn contents(store: &Connection) -> rusqlite::Result<Contents> {
    let mut query = match store.prepare("SELECT key, value FROM store ORDER BY key") {
        Err(rusqlite::Error::SqliteFailure(error, Some(text)))
            if error.code == ErrorCode::Unknown && text.contains("no such table") =>
        {
            return Ok(Contents::new());
        }
        query => query?,
    };
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
