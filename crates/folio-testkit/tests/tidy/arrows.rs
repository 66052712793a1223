//! Which crate may depend on which (ARCHITECTURE.md, "Layers and arrows").

use super::cargo::packages;
use super::repository::assert_none;

/// The crates from the bottom up. Crates of the same number do not depend on one another.
const LAYERS: [(&str, u8); 13] = [
    ("folio-memory", 0),
    ("folio-engine", 1),
    ("folio-process", 1),
    ("folio-store", 2),
    ("folio-model", 2),
    ("folio-tools", 2),
    ("folio-runner", 3),
    ("folio-mcp", 3),
    ("folio", 4),
    ("folio-server", 5),
    ("folio-telemetry", 5),
    ("folio-restate", 5),
    ("folio-cli", 6),
];

/// Contains test doubles and test suites. It may depend on everything below the surfaces, and no shipped crate depends
/// on it.
const TESTKIT: &str = "folio-testkit";

/// Dependencies that only some crates may use: each is a door to the outside. A server and a client of one protocol
/// are two doors.
const DOORS: [(&str, &[&str]); 22] = [
    ("agent-client-protocol", &["folio-model"]),
    ("rusqlite", &["folio-store"]),
    ("tokio-postgres", &["folio-store"]),
    ("tokio-postgres-rustls", &["folio-store"]),
    ("deadpool-postgres", &["folio-store"]),
    ("zstd", &["folio-store"]),
    ("leakguard", &["folio-store"]),
    ("getrandom", &["folio-store"]),
    ("genai", &["folio-model"]),
    (
        "reqwest",
        &[
            "folio-model",
            "folio-mcp",
            "folio-restate",
            "folio-telemetry",
            "folio-tools",
        ],
    ),
    ("rustls", &["folio-model", "folio-mcp", "folio-store", "folio-tools"]),
    ("cap-std", &["folio-tools"]),
    ("ignore", &["folio-tools"]),
    ("axum", &["folio-server", TESTKIT]),
    ("opentelemetry-otlp", &["folio-telemetry"]),
    ("restate-sdk", &["folio-restate"]),
    ("hyper", &["folio-restate", "folio-server"]),
    ("rmcp", &["folio-server", "folio-mcp"]),
    ("clap", &["folio-cli"]),
    ("crossterm", &["folio-cli"]),
    ("etcetera", &["folio-cli"]),
    ("ratatui", &["folio-cli"]),
];

fn layer(name: &str) -> Option<u8> {
    let found = LAYERS.iter().find(|(known, _)| *known == name);
    found.map(|(_, layer)| *layer)
}

#[test]
fn every_workspace_crate_is_assigned_a_layer() {
    let mut members: Vec<&str> = packages().members().map(|p| p.name.as_str()).collect();
    let mut known: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).chain([TESTKIT]).collect();
    members.sort_unstable();
    known.sort_unstable();
    assert_eq!(members, known);
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let mut wrong = Vec::new();
    for package in packages().members() {
        for dependency in &package.dependencies {
            let Some(below) = layer(&dependency.name) else {
                continue;
            };
            let fine = match layer(&package.name) {
                Some(above) => below < above,
                // The testkit.
                None => below <= 3,
            };
            if !fine {
                wrong.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn testkit_is_only_a_dev_dependency() {
    let mut wrong = Vec::new();
    for package in packages().members() {
        for dependency in &package.dependencies {
            if dependency.name == TESTKIT && !dependency.is_dev {
                wrong.push(package.name.clone());
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn surface_crates_use_lower_layers_only_through_the_folio_crate() {
    let mut wrong = Vec::new();
    for package in packages().members() {
        let is_surface = layer(&package.name).is_some_and(|layer| layer > 4);
        for dependency in package.dependencies.iter().filter(|d| is_surface && !d.is_dev) {
            if layer(&dependency.name).is_some_and(|layer| layer < 4) {
                wrong.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn external_io_crates_are_used_only_by_their_owners() {
    let mut wrong = Vec::new();
    for package in packages().members() {
        for dependency in package.dependencies.iter().filter(|d| !d.is_dev) {
            let door = DOORS.iter().find(|(name, _)| *name == dependency.name);
            if let Some((name, owners)) = door
                && !owners.contains(&package.name.as_str())
            {
                wrong.push(format!(
                    "{} uses {name}, which is for {}",
                    package.name,
                    owners.join(" and ")
                ));
            }
        }
    }
    assert_none(&wrong);
}
