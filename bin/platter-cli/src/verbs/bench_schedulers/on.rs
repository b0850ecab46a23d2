//! The device of a cell: the spec of the command line with an elevator in each of its leaves.

use platter::registry::{self, OpenError, Shape};
use platter::spec::{ArgValue, Spec};

/// The spec with `elevator=NAME` in each disk, and without contents in simulated ones.
pub(super) fn with_elevator(text: &str, elevator: &str) -> Result<String, OpenError> {
    let spec = registry::parse(text).map_err(OpenError::Spec)?;
    rewrite(&spec, elevator)
}

fn rewrite(spec: &Spec, elevator: &str) -> Result<String, OpenError> {
    let Some(row) = registry::find(spec.name()) else { return Ok(spec.to_string()) };
    let mut args = Vec::new();
    for arg in spec.args() {
        let device = row.shape == Shape::Layer && arg.name().is_none();
        args.push(match (device, arg.value()) {
            (true, ArgValue::Spec(inner)) => rewrite(inner, elevator)?,
            (true, word) => rewrite(&registry::parse(&word.to_string()).map_err(OpenError::Spec)?, elevator)?,
            (false, _) => arg.to_string(),
        });
    }
    let given = |name: &str| spec.args().iter().any(|arg| arg.name() == Some(name));
    if given("elevator") {
        let message = "bench schedulers sets each elevator itself; leave `elevator` out, or use bench io";
        return Err(OpenError::Spec(spec.reject(message)));
    }
    for (name, value) in [("elevator", elevator), ("data", "off")] {
        if row.params().any(|param| param.name == name) && !given(name) {
            args.push(format!("{name}={value}"));
        }
    }
    Ok(format!("{}({})", spec.name(), args.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disk_gets_the_elevator() {
        for (spec, expected) in [
            ("/dev/sdb", "file(/dev/sdb, elevator=noop)"),
            ("null(1M)", "null(1M, elevator=noop)"),
            ("sim(ideal, depth=2)", "sim(ideal, depth=2, elevator=noop, data=off)"),
            (
                "partition(offset=1M, file(a.img, create=2M))",
                "partition(offset=1M, file(a.img, create=2M, elevator=noop))",
            ),
            ("partition(length=1M, a.img)", "partition(length=1M, file(a.img, elevator=noop))"),
        ] {
            assert_eq!(with_elevator(spec, "noop").unwrap(), expected);
        }
        let error = with_elevator("null(1M, elevator=deadline)", "noop").unwrap_err().to_string();
        assert!(error.contains("leave `elevator` out"), "{error}");
    }
}
