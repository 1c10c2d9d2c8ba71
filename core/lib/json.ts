/** What JSON can say. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON object: the body of a request or of a reply in some wire. */
export type Fields = { readonly [name: string]: Json }
