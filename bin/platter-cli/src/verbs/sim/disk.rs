//! A disk that is named by the catalogue or by the path of its parameter file.

use crate::cli::{CliError, Exit};
use platter::spec::{closest, quote};
use platter_sim::catalogue::{self, DiskModel};
use platter_sim::disk::DiskParams;
use platter_sim::import;
use std::path::Path;

/// A disk as the user names it.
pub(super) enum Named {
    /// Of the catalogue.
    Model(&'static DiskModel),
    /// Of a parameter file.
    File(Box<DiskParams>),
}

/// Finds a disk. Names take precedence; a file of the same name is written `./NAME`.
pub(super) fn find(name: &str, system: Option<&Path>) -> Result<Named, CliError> {
    match catalogue::by_name(name) {
        Some(_) if system.is_some() => Err(CliError::usage(format!(
            "--parv applies to parameter files, but {} is a disk of the catalogue; leave --parv out",
            quote(name)
        ))),
        Some(row) => Ok(Named::Model(row)),
        None if !name.contains(['/', '.']) => {
            let names = || catalogue::TABLE.iter().map(|row| row.name);
            let near = closest(name, names()).map(|near| format!("; did you mean `{near}`?"));
            let known: Vec<&str> = names().collect();
            Err(CliError::usage(format!(
                "unknown simulated disk {}{}\nexpected one of: {}; or the path of a parameter file",
                quote(name),
                near.unwrap_or_default(),
                known.join(", ")
            )))
        }
        None => {
            let path = Path::new(name);
            let params = match system {
                Some(system) => import::load_with(path, Some(system)),
                None => import::load(path),
            };
            let params = params.map_err(|error| match error.unreadable {
                true => CliError::new(Exit::CannotOpen, error.to_string()),
                false => CliError::usage(error.to_string()),
            });
            Ok(Named::File(Box::new(params?)))
        }
    }
}
