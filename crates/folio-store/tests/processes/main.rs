//! Several processes on one file, and one that is killed whenever.

mod crash;
mod together;
