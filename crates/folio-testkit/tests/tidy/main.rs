//! Rules for the whole repository: its layers, its files, its licences, and that its documents are true.

mod arrows;
mod cargo;
mod documents;
mod error_pages;
mod licences;
mod plans;
mod purity;
mod repository;
mod sources;
