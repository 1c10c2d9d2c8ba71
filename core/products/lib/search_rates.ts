/** Rates of web search, in US dollars before the fee: for a call, and for a page that is read. */
export const PER_CALL = '0.01'
export const PER_PAGE = '0.002'
