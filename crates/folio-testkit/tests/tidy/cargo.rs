//! What cargo says of the workspace and of everything in `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use super::repository::root;

/// One package of the lock file.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Whether it is a member of the workspace.
    pub(crate) is_member: bool,
    /// The dependencies in its manifest.
    pub(crate) dependencies: Vec<Dependency>,
    /// The packages that it is built with, as indexes into [`Packages::all`], without those of its tests.
    pub(crate) built_with: Vec<usize>,
}

/// A dependency in a manifest.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether only tests, benches and examples use it.
    pub(crate) is_dev: bool,
}

/// Every package of the lock file.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) all: Vec<Package>,
}

impl Packages {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.all.iter().filter(|package| package.is_member)
    }

    /// The names of all direct and indirect dependencies of `name`.
    pub(crate) fn below(&self, name: &str) -> BTreeSet<&str> {
        let is_it = |package: &Package| package.is_member && package.name == name;
        let mut open: Vec<usize> = self.all.iter().position(is_it).into_iter().collect();
        let mut seen = BTreeSet::new();
        let mut names = BTreeSet::new();
        while let Some(at) = open.pop() {
            for next in &self.all[at].built_with {
                if seen.insert(*next) {
                    names.insert(self.all[*next].name.as_str());
                    open.push(*next);
                }
            }
        }
        names
    }
}

/// The packages as cargo reports them. Runs cargo once, offline.
pub(crate) fn packages() -> &'static Packages {
    static PACKAGES: LazyLock<Packages> = LazyLock::new(|| {
        // What other systems need may not be on this machine; then only what this one needs is looked at.
        let answer = metadata(&[]).or_else(|_| metadata(&["--filter-platform", host()]));
        read(&answer.unwrap_or_else(|error| panic!("cargo metadata failed: {error}")))
    });
    &PACKAGES
}

fn metadata(more: &[&str]) -> Result<Value, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(more)
        .current_dir(root())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The target of this test build, as cargo names it. Only targets on which Folio is tested.
fn host() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "aarch64-unknown-linux-gnu"
    } else {
        "x86_64-unknown-linux-gnu"
    }
}

fn read(answer: &Value) -> Packages {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = list(&answer["workspace_members"]).iter().map(text).collect();
    let packages = list(&answer["packages"]);
    let places: BTreeMap<String, usize> = packages
        .iter()
        .enumerate()
        .map(|(at, package)| (text(&package["id"]), at))
        .collect();
    let mut all: Vec<Package> = packages
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            license: package["license"].as_str().map(str::to_owned),
            is_member: members.contains(&text(&package["id"])),
            dependencies: list(&package["dependencies"])
                .iter()
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    is_dev: dependency["kind"] == "dev",
                })
                .collect(),
            built_with: Vec::new(),
        })
        .collect();
    for node in list(&answer["resolve"]["nodes"]) {
        let Some(&at) = places.get(&text(&node["id"])) else {
            continue;
        };
        for dependency in list(&node["deps"]) {
            let is_built = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if let Some(&below) = places.get(&text(&dependency["pkg"])).filter(|_| is_built) {
                all[at].built_with.push(below);
            }
        }
    }
    assert!(all.len() > 50, "cargo named only {} packages", all.len());
    Packages { all }
}
