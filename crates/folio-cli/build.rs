//! Linker options of the program.

use std::process::Command;

/// The first version of the C library that supports packed relocations.
const READS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Saves a tenth of the size; all of it is read at each start and stays in memory.
    if is_native_build() && c_library().is_some_and(|version| version >= READS_PACKED) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the program is built for a system like this one, with its C library.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script what it builds for in its environment"
)]
fn is_native_build() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && std::env::var("HOST").ok() == std::env::var("TARGET").ok()
}

/// The version of the C library of this system.
fn c_library() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
