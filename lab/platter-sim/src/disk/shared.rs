//! Tables that identical disks share: a thousand disks of one kind then use the same memory.

use super::error::ParamsError;
use super::layout::Layout;
use super::mech::Mechanics;
use super::params::{LayoutParams, MechanicsParams};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Tables derived from the parameters of a disk, which do not change.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) layout: Arc<Layout>,
    pub(crate) mechanics: Arc<Mechanics>,
}

struct Known {
    params: (LayoutParams, MechanicsParams),
    layout: Weak<Layout>,
    mechanics: Weak<Mechanics>,
}

/// Tables in use, of any disk of the process.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The tables of these parameters: those of an equal disk, or new ones.
///
/// # Errors
/// Parameters that no disk can have.
pub(crate) fn tables(params: &(LayoutParams, MechanicsParams)) -> Result<Tables, ParamsError> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.layout.strong_count() > 0);
    let equal = known.iter().find(|known| known.params == *params);
    if let Some(known) = equal
        && let (Some(layout), Some(mechanics)) = (known.layout.upgrade(), known.mechanics.upgrade())
    {
        return Ok(Tables { layout, mechanics });
    }
    let layout = Arc::new(Layout::new(&params.0, params.1.rpm)?);
    let mechanics = Arc::new(Mechanics::new(&params.1, layout.cylinders())?);
    known.push(Known {
        params: params.clone(),
        layout: Arc::downgrade(&layout),
        mechanics: Arc::downgrade(&mechanics),
    });
    Ok(Tables { layout, mechanics })
}
