//! Language models behind one seam.
