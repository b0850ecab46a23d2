//! The promises of an engine about its transactions.

use std::fmt;

/// The contents that a store has after each of its transactions, and how many of these were acknowledged.
///
/// Transactions are numbered from 1 and follow each other: the engine [begins](History::begin) one with the
/// contents that it leads to, and [acknowledges](History::acknowledge) it when its caller would be told that
/// it is done. After a power cut the contents must be those after some transaction, the last acknowledged
/// one or a later one: acknowledged transactions are present, and a transaction that was begun is present completely
/// or not at all.
///
/// ```
/// use platter_kit::History;
///
/// let mut history = History::<u32>::default();
/// history.begin(10);
/// history.acknowledge();
/// history.begin(20);
/// assert_eq!((history.check(&10), history.check(&20)), (Ok(()), Ok(())));
/// let lost = history.check(&0).unwrap_err();
/// assert_eq!(lost.to_string(), "transaction 1 was acknowledged and is lost: the contents are those after transaction 0");
/// assert!(history.check(&15).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct History<T> {
    /// At index n the contents after transaction n.
    states: Vec<T>,
    acknowledged: usize,
}

impl<T: Default> Default for History<T> {
    fn default() -> History<T> {
        History::new(T::default())
    }
}

impl<T> History<T> {
    /// A history that starts with these contents.
    pub fn new(contents: T) -> History<T> {
        History { states: vec![contents], acknowledged: 0 }
    }

    /// Begins a transaction that leads to these contents. From here on they may be found after a cut.
    pub fn begin(&mut self, contents: T) {
        self.states.push(contents);
    }

    /// The last transaction is done and durable: from here on no older contents may be found after a cut.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.states.len() - 1;
    }

    /// The contents that the last transaction leads to.
    pub fn latest(&self) -> &T {
        &self.states[self.states.len() - 1]
    }

    /// Transactions that have begun.
    pub fn begun(&self) -> usize {
        self.states.len() - 1
    }

    /// Transactions that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }
}

impl<T: PartialEq> History<T> {
    /// Checks contents that were found after a power cut.
    ///
    /// # Errors
    /// They are older than the last acknowledged transaction, or those of no transaction.
    pub fn check(&self, found: &T) -> Result<(), Broken> {
        let (acknowledged, begun) = (self.acknowledged, self.begun());
        match self.states.iter().rposition(|state| state == found) {
            Some(after) if after >= acknowledged => Ok(()),
            Some(after) => Err(Broken::Lost { after, acknowledged }),
            None => Err(Broken::Torn { acknowledged, begun }),
        }
    }
}

/// How contents break the promises of a [`History`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// The contents are those after a transaction before the last acknowledged one.
    Lost {
        /// The transaction whose contents they are; 0 before the first one.
        after: usize,
        /// The last acknowledged one.
        acknowledged: usize,
    },
    /// The contents are not those after any transaction.
    Torn {
        /// The last acknowledged one.
        acknowledged: usize,
        /// The last one that has begun.
        begun: usize,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Lost { after, acknowledged } => write!(
                f,
                "transaction {acknowledged} was acknowledged and is lost: the contents are those after \
                 transaction {after}"
            ),
            Broken::Torn { acknowledged, begun } => write!(
                f,
                "the contents are not those after any of the {begun} transactions, of which {acknowledged} \
                 were acknowledged"
            ),
        }
    }
}

impl std::error::Error for Broken {}
