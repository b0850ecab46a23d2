//! The configuration file of a server, in TOML: devices by name, exports, limits, control and metrics.
//!
//! ```
//! let text = r#"
//! [devices.scratch]
//! spec = "ram(64M)"
//! limits = { iops = 10_000, bandwidth = "200M" }
//!
//! [exports.local]
//! kind = "nbd"
//! address = "unix:/run/platter/nbd.sock"
//! "#;
//! let config = platter_serve::config::parse(text)?;
//! assert_eq!(config.devices[0].limits.iops, 10_000);
//! # Ok::<(), platter_serve::config::ConfigErrors>(())
//! ```
//!
//! The tables of [`keys`] list all keys; docs/configuration.md describes them. Errors name line and column, and all
//! errors of a file are reported at once. Reading a configuration opens nothing: whether a device can be opened shows
//! when the server starts.

mod error;
pub mod keys;
mod kind;
mod model;
mod section;

pub use error::{ConfigError, ConfigErrors};
pub use model::{Config, DeviceConfig, ExportConfig, MAX_CONFIG_BYTES, ServerConfig, parse, read_file};
