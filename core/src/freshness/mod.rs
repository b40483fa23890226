//! What headers an answer gets: `Cache-Control`, `ETag`, surrogate keys.
