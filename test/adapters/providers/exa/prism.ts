/** An Exa that Prism makes of a document. */
import { byPrism } from '../lib/prism.ts'

export const exaByPrism = () => byPrism('exa_openapi.json')
