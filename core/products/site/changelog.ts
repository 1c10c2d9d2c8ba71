/** Dated changes of the contract. */
import { Type } from '@sinclair/typebox'
import { changelog as changes } from './changelog_data.ts'
import { free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'

const list = free({
  name: 'changelog',
  path: '/changelog',
  summary: 'Dated changes of this API, newest first',
  tag: 'discovery',
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        date: Type.String({ description: 'YYYY-MM-DD.' }),
        title: Type.String(),
        detail: Type.String(),
        paths: Type.Optional(
          Type.Array(Type.String(), {
            description: 'The paths that it concerns; absent when it concerns all paid paths.',
          }),
        ),
      }),
    ),
  }),
  answer: () => json(200, { object: 'list', data: changes }, { 'cache-control': 'public, max-age=3600' }),
})

export const changelog = [list]
